package rooms

import (
	"time"

	"chatclub/internal/command"
)

// Event is one event of a user on a page. (Page, ID) identifies it.
type Event struct {
	Page    string
	User    string // PSID
	ID      string
	At      time.Time // when it happened, by the platform's clock
	Lang    string    // the user's language if the event has it, else ""
	Command command.Command
	Files   []string // of a message: the addresses of its attachments, for reports
	// Time returns how much of its page's limits the event's copies take if they are
	// so many, those of texts and those of audio and video. nil: nothing.
	Time func(copies int) (texts, media time.Duration)
	// Least returns the time of the page's limit of texts that so many copies may take
	// of a member who owes nothing, whatever its allowance. nil: any.
	Least func(copies int) time.Duration
	// Pressed reports whether so much more of the page's limits of texts and of media
	// would wait for too long. Only then a share is refused. nil: it would.
	Pressed func(texts, media time.Duration) (ofTexts, ofMedia bool)
	// Limits are the page's, kept with the Result for the copies.
	Limits Limits
	// Line is the part of its page's limit that one text to one user takes: of what is
	// sent because of the event, other than its copies. 0: nothing.
	Line time.Duration
	Idle bool // the event is not of the user, who has been silent for Config.Idle; Command does not count
}

// IsMessage reports whether the event is a message for the members of a room.
func (ev Event) IsMessage() bool { return ev.Command.Kind == command.None && !ev.Idle }

// Limits are calls per second of texts, and of audio and video. 0: none is known.
type Limits struct {
	Text  float64 `json:"text,omitempty"`
	Media float64 `json:"media,omitempty"`
}

// Rejection says why an event had no effect.
type Rejection string

// Every rejection that is counted.
const (
	Flood Rejection = "flood" // its user sends too many events
	Share Rejection = "share" // its user takes too much of its page's limits, and the page is pressed
	Ban   Rejection = "ban"   // its user is banned
)

// Span is a part of time, from From to before Until.
type Span struct{ From, Until time.Time }

// Has reports whether t is in the span.
func (s Span) Has(t time.Time) bool { return !t.Before(s.From) && t.Before(s.Until) }

// Status says whether an event was received before.
type Status int

// Every status of an event.
const (
	Fresh      Status = iota // received for the first time
	Unfinished               // received before, but Done was never called: its copies may be missing
	Finished                 // received before, and Done was called
)

// Notice says what the user must be told.
type Notice string

// Every notice there is, with the fields of Result that belong to it. The user
// is "it".
const (
	Silence       Notice = ""               // nothing
	Welcome       Notice = "welcome"        // it joined Room, under Name, with Count others; Subject is the full room that it asked for, or ""
	Here          Notice = "here"           // it asked, and is in Room with Count others
	Already       Notice = "already"        // it is in Room, where it wanted to go; Subject is the full room that it asked for, or ""
	Left          Notice = "left"           // it left Room by its own wish
	LeftIdle      Notice = "left_idle"      // it left Room because it was silent
	Nowhere       Notice = "nowhere"        // its action needs a room, and it is in none
	RoomList      Notice = "rooms"          // Rooms, of Count
	NoRoom        Notice = "no_room"        // there is no room Subject
	Renamed       Notice = "renamed"        // its name is Name now; Was was its name in Room
	NameTaken     Notice = "name_taken"     // Subject looks like the name of another who is here, or was in the last day
	NameHouse     Notice = "name_house"     // Subject looks like a name that no user may have
	NameOften     Notice = "name_often"     // it had too many names in Room in the last day, or one in the last minute; it can have another one at Until
	Members       Notice = "who"            // Names are in Room, its own among them
	NoMember      Notice = "no_member"      // nobody of the name or number Subject is here, or was in the last day
	Oneself       Notice = "oneself"        // Subject is its own name
	Blocked       Notice = "blocked"        // it and Subject get no more messages from each other
	Unblocked     Notice = "unblocked"      // it and Subject get messages from each other again
	NotBlocked    Notice = "not_blocked"    // it blocked no user of the name Subject
	Muted         Notice = "muted"          // it gets no copies until Until
	Unmuted       Notice = "unmuted"        // it gets copies again
	Reported      Notice = "reported"       // the operators see its report of Subject
	Flooding      Notice = "flooding"       // it sends too many events; they have no effect until Until
	FloodingTexts Notice = "flooding_texts" // its message, which had no effect, would take too much of the page's limit before Until
	FloodingMedia Notice = "flooding_media" // the same of the limit of audio and video
	Banned        Notice = "banned"         // its events have no effect until Until; for good if that is zero
)

// Room names a room: public rooms have a number, the others also a code.
type Room struct {
	Number int    `json:"number,omitempty"` // unique in the page, also for rooms with a code
	Code   string `json:"code,omitempty"`
}

// Listed is a public room in a list for users.
type Listed struct {
	Number  int `json:"number"`
	Members int `json:"members"`
}

// Result is the outcome of an event. For a Finished one only Status is set. For
// an Unfinished one all other fields are those of the Fresh event.
//
// Its JSON is stored until Done, so the names of the fields there never change.
type Result struct {
	Status   Status    `json:"-"`
	Rejected bool      `json:"held,omitempty"`   // it had no effect: the user floods, is banned, or has left since
	Why      Rejection `json:"why,omitempty"`    // it is Rejected; empty: the user has left since
	Limits   Limits    `json:"limits,omitzero"`  // the event's, so that its copies are the same whenever they are made
	Refused  Span      `json:"-"`                // why is Flood: all other events of the user from these times have the same result, without a Notice
	Paused   bool      `json:"paused,omitempty"` // no message may be sent because of it: the page is paused
	Joined   bool      `json:"joined,omitempty"` // it brought the user into Room
	Room     Room      `json:"room"`             // the user's room after the event, or the one that it left
	Name     string    `json:"name,omitempty"`   // the user's name there
	Was      string    `json:"was,omitempty"`    // the name under which Room knew the user before, if the others must be told
	Lang     string    `json:"lang,omitempty"`   // the user's language; "" if it is unknown
	Notice   Notice    `json:"notice,omitempty"`

	Count   int       `json:"count,omitempty"` // other members of Room, including those who cannot be sent to
	Subject string    `json:"subject,omitempty"`
	Names   []string  `json:"names,omitempty"`
	Rooms   []Listed  `json:"rooms,omitempty"`
	Until   time.Time `json:"until,omitzero"`

	// Relay holds the recipients of a message's copies, and of the word that the
	// user has another name: PSIDs, sorted. It is nil for other commands.
	Relay []string `json:"relay,omitempty"`
}
