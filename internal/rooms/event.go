package rooms

import (
	"strconv"
	"time"
)

// Action is what a user does.
type Action int

// Every action there is. Event.Arg is what each needs beside the user.
const (
	Write   Action = iota // something for the others of the room
	Start                 // asks to be let in, or where it is
	List                  // asks for the public rooms
	Join                  // Arg: number of a public room, or a code, which opens a room when there is none; "": any
	Leave                 // leaves its room
	Rename                // Arg: the name it wants
	Who                   // asks who is in its room
	Block                 // Arg: name of a member of its room
	Unblock               // Arg: name of one whom it blocked
	Mute                  // For: how long it wants no copies; 0: it wants them again
	Report                // Arg: name of a member of its room
	Ask                   // something that needs no room, such as help
	Idle                  // not of the user: it has been silent for Config.Idle
)

// Event is one thing that a user did on a page. (Page, ID) identifies it.
type Event struct {
	Page   string
	User   string // PSID
	ID     string
	At     time.Time // when it happened, by the platform's clock
	Lang   string    // the user's language where the event tells it, else ""
	Action Action
	Arg    string
	For    time.Duration
}

// Status says what is known of an event.
type Status int

// The states of an event.
const (
	Fresh      Status = iota // told for the first time
	Unfinished               // told before, but Done was never called: its copies may be missing
	Finished                 // told before, and Done
)

func (s Status) String() string {
	switch s {
	case Fresh:
		return "fresh"
	case Unfinished:
		return "unfinished"
	case Finished:
		return "finished"
	}
	return "Status(" + strconv.Itoa(int(s)) + ")"
}

// Notice is what the user is to be told.
type Notice string

// Every notice there is, with the fields of Result that belong to it.
const (
	Silence    Notice = ""            // nothing
	Welcome    Notice = "welcome"     // it joined Room, under Name, where Count others are; Subject is the full room that it asked for, or ""
	Here       Notice = "here"        // it is in Room with Count others, and asked
	Already    Notice = "already"     // it is in Room, where it wanted to go; Subject is the full room that it asked for, or ""
	Left       Notice = "left"        // it left Room by its own wish
	LeftIdle   Notice = "left_idle"   // it left Room because it was silent
	Nowhere    Notice = "nowhere"     // it is in no room, and what it did needs one
	RoomList   Notice = "rooms"       // Rooms, of Count
	NoRoom     Notice = "no_room"     // there is no room Subject
	Renamed    Notice = "renamed"     // it is called Name now
	NameTaken  Notice = "name_taken"  // Subject is another member's name
	Members    Notice = "who"         // Names are in Room, its own among them
	NoMember   Notice = "no_member"   // nobody in its room is called Subject
	Oneself    Notice = "oneself"     // Subject is itself
	Blocked    Notice = "blocked"     // it and Subject get nothing from each other any more
	Unblocked  Notice = "unblocked"   // that is over
	NotBlocked Notice = "not_blocked" // it blocked nobody called Subject
	Muted      Notice = "muted"       // it gets nothing until Until
	Unmuted    Notice = "unmuted"     // it gets everything again
	Reported   Notice = "reported"    // the operators are told of Subject
	Flooding   Notice = "flooding"    // it does too much; what it does has no effect until Until
	Banned     Notice = "banned"      // what it does has no effect until Until; for good if that is zero
)

// Room names a room: public ones have a number, the others a code.
type Room struct {
	Number int    `json:"number,omitempty"` // unique in the page, also for rooms with a code
	Code   string `json:"code,omitempty"`
}

// Listed is a public room as users see it.
type Listed struct {
	Number  int `json:"number"`
	Members int `json:"members"`
}

// Result is what an event led to. Of a Finished one only Status is set; of an
// Unfinished one everything else is as it was when the event was Fresh.
type Result struct {
	Status Status `json:"-"`
	Held   bool   `json:"held,omitempty"`   // it had no effect: the user floods or is banned
	Paused bool   `json:"paused,omitempty"` // nothing may be sent because of it: the page is paused
	Joined bool   `json:"joined,omitempty"` // it brought the user into Room
	Room   Room   `json:"room"`             // the user's room after the event; of those who left the one before
	Name   string `json:"name,omitempty"`   // the user's name there
	Lang   string `json:"lang,omitempty"`   // the user's language; "" when nothing is known
	Notice Notice `json:"notice,omitempty"`

	Count   int       `json:"count,omitempty"` // other members of Room, whether they can be sent to or not
	Subject string    `json:"subject,omitempty"`
	Names   []string  `json:"names,omitempty"`
	Rooms   []Listed  `json:"rooms,omitempty"`
	Until   time.Time `json:"until,omitzero"`

	// Relay is who gets a copy of what the user wrote: PSIDs, sorted. It is
	// set for Write only.
	Relay []string `json:"relay,omitempty"`
}
