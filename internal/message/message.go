// Package message holds the wire types on chatclub's queues. Webhook puts an
// Event on `inbound`, and core an Outbound copy on `outbound`. A Death records
// why a message could not be sent. Decoding checks every field that a consumer
// relies on, names the field that is wrong, and never panics; an encoded value
// always decodes to itself.
//
// All values are plain data, safe to copy and, once made, to read from any
// goroutine.
package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Kind says what an Event tells.
type Kind string

// The kinds of event that travel on `inbound`.
const (
	KindMessage  Kind = "message"  // a user wrote; Text, Payload or Attachments
	KindPostback Kind = "postback" // a user tapped a button; Payload, Title
	KindPolicy   Kind = "policy"   // Meta blocked, warned or unblocked the page; Action, Reason
	KindFeedback Kind = "feedback" // the dispatcher learned that User, or the whole page, cannot be sent to, or not now; Reason, Until
	KindDeletion Kind = "deletion" // Meta passed on that User wants its data deleted; Page is empty, and User may be an id that no page knows
	KindIdle     Kind = "idle"     // core saw that User has been silent for too long
	KindOther    Kind = "other"    // any other event of Messenger, Raw, where webhook is told to pass on all; core ignores it
)

func (k Kind) valid() bool {
	switch k {
	case KindMessage, KindPostback, KindPolicy, KindFeedback, KindDeletion, KindIdle, KindOther:
		return true
	}
	return false
}

// Platform is the platform on which an Event happened.
type Platform string

// The platforms. Their Send API is the same, and so are its limits.
const (
	Messenger Platform = ""
	Instagram Platform = "instagram"
)

// Attachment is a file that is relayed by its address.
type Attachment struct {
	Type string `json:"type"` // image, audio, video, file
	URL  string `json:"url"`
}

// QuickReply is something to tap below a message; the tap comes back as an
// Event with the payload. Up to three below a short text are buttons, which
// stay, and whose tap is a KindPostback. Others are Messenger's quick replies,
// which are gone with the next message, and whose tap is a KindMessage with the
// title as its text.
type QuickReply struct {
	Title   string `json:"title"`   // at most 20 characters
	Payload string `json:"payload"` // at most 1,000 characters
}

// Event is one thing that happened on a page. (Page, ID) identifies it: a
// repeated pair is the same event told twice.
type Event struct {
	Kind        Kind         `json:"kind"`
	Platform    Platform     `json:"platform,omitempty"` // absent: Messenger
	Page        string       `json:"page"`
	ID          string       `json:"id"`               // Messenger's mid, or a digest of the raw event where it has none
	User        string       `json:"user,omitempty"`   // PSID; empty only for KindPolicy, for a page that is resumed, and for some of KindOther
	Time        int64        `json:"time"`             // when it happened, Unix milliseconds
	Locale      string       `json:"locale,omitempty"` // of the user, such as pt_BR, where the event tells it
	Text        string       `json:"text,omitempty"`
	Payload     string       `json:"payload,omitempty"` // of the quick reply or postback
	Title       string       `json:"title,omitempty"`   // of the postback's button
	ReplyTo     string       `json:"reply_to,omitempty"`
	Attachments []Attachment `json:"attachments,omitempty"`
	Action      string       `json:"action,omitempty"`  // KindPolicy: block, warning, unblock; KindOther: standby of an event there
	Reason      string       `json:"reason,omitempty"`  // KindPolicy: Meta's word; KindFeedback: a Reason, or FeedbackBusy, FeedbackResumed, FeedbackWaiting
	Raw         Payload      `json:"raw,omitempty"`     // Messenger's item, where webhook is told to pass on all
	Waiting     int          `json:"waiting,omitempty"` // FeedbackWaiting: messages
	Rate        float64      `json:"rate,omitempty"`    // FeedbackWaiting: messages per second
	Wait        float64      `json:"wait,omitempty"`    // FeedbackWaiting: seconds for the page's limit
	Pace        float64      `json:"pace,omitempty"`    // FeedbackWaiting: messages per second
	Limits      Limits       `json:"limits,omitzero"`   // FeedbackWaiting: of the page, as its dispatcher is configured
	Until       int64        `json:"until,omitempty"`   // KindFeedback of a stopped or busy page, or a failing recipient: when it is tried again, Unix milliseconds
}

// Encode returns the wire form of e.
func (e Event) Encode() ([]byte, error) { return encode("event", e) }

// DecodeEvent parses a body from `inbound`. Every fault is named.
func DecodeEvent(b []byte) (Event, error) {
	var e Event
	if err := json.Unmarshal(b, &e); err != nil {
		return Event{}, fmt.Errorf("decode event: %w", ExplainJSON(err))
	}
	e.Raw = canonical(e.Raw)
	var faults []error
	if !e.Kind.valid() {
		faults = append(faults, fmt.Errorf("kind %.40q is unknown", e.Kind))
	}
	if e.Page == "" && e.Kind != KindDeletion {
		faults = append(faults, errors.New("page is empty"))
	}
	if e.ID == "" {
		faults = append(faults, errors.New("id is empty"))
	}
	if e.User == "" && e.Kind != KindPolicy && e.Kind != KindOther && (e.Kind != KindFeedback || e.Reason != FeedbackResumed && e.Reason != FeedbackWaiting) {
		faults = append(faults, errors.New("user is empty"))
	}
	if err := e.Limits.Validate(); err != nil {
		faults = append(faults, fmt.Errorf("limits: %w", err))
	}
	if len(faults) > 0 {
		return Event{}, fmt.Errorf("decode event: %w", errors.Join(faults...))
	}
	return e, nil
}

// FeedbackFailing is the Reason of a KindFeedback about a recipient whom every
// message fails to reach. Until is when core may copy to them again.
const FeedbackFailing = string(ReasonFailing)

// FeedbackBusy is the Reason of a KindFeedback that is about no recipient and no
// death. Broadcasts to the page wait, because the page is in excess or has
// more to send. Until is when core may put more of them there.
const FeedbackBusy = "busy"

// FeedbackResumed is the Reason of a KindFeedback about a page, or a User on it, that
// can be sent to again: earlier feedback about it is over.
const FeedbackResumed = "resumed"

// FeedbackWaiting is the Reason of a KindFeedback about a page's texts: Waiting of them
// are before a new one, and Rate are sent. Without Waiting none has to wait for
// long any more, or nobody knows for how long. Those that wait for the page, and not for
// earlier calls to their own people, wait for Wait seconds at least; Pace of them go.
// Limits are those of the page without the operators' orders.
const FeedbackWaiting = "waiting"

// Class is the quota class that the platform counts a send in.
type Class string

// The platform's quota classes, with its published limits per page.
const (
	ClassText  Class = "text"  // text, links, images, files: 300 calls/s
	ClassMedia Class = "media" // audio and video: 10 calls/s
)

// Outbound is one message to one recipient.
type Outbound struct {
	ID         string       `json:"id"` // deterministic, see CopyID; travels in the send's metadata
	Page       string       `json:"page"`
	To         string       `json:"to"` // PSID
	Class      Class        `json:"class"`
	Text       string       `json:"text,omitempty"` // exactly one of Text, Attachment, Payload and SenderAction is set
	Attachment *Attachment  `json:"attachment,omitempty"`
	Joins      bool         `json:"joins,omitempty"`      // a line of a conversation: it may go out in one message with others, see Join
	Answer     bool         `json:"answer,omitempty"`     // chatclub's own word to the user of an event: it passes copies, see Priority
	Replies    []QuickReply `json:"replies,omitempty"`    // buttons below it, at most 13
	Time       int64        `json:"time"`                 // when its event happened, Unix milliseconds: its age counts from here
	Attempts   int          `json:"attempts,omitempty"`   // calls that failed for a reason that counts as an attempt
	FirstCode  string       `json:"first_code,omitempty"` // of the first failed attempt, "code/subcode"
	Broadcast  string       `json:"broadcast,omitempty"`  // id of the broadcast that it is part of
	Own                     // fields that core does not use, and other programs may
	NotBefore  int64        `json:"not_before,omitempty"` // it is sent then at the earliest, Unix milliseconds, and its age counts from there; 0: at once
	Deadline   int64        `json:"deadline,omitempty"`   // after which it is not sent, Unix milliseconds, in place of the bound of its age; 0: that counts
}

// Priority is the order among the messages of one page and class. Those
// of one priority to one recipient keep their order.
type Priority int

// The priorities, the lowest first.
const (
	PriorityBroadcast Priority = iota // goes when nothing else of its page does
	PriorityCopy                      // texts of members to one another
	PriorityAnswer                    // an answer to a command, or a welcome
)

// Priority returns the priority of o.
func (o Outbound) Priority() Priority {
	switch {
	case o.Broadcast != "":
		return PriorityBroadcast
	case o.Answer:
		return PriorityAnswer
	}
	return PriorityCopy
}

// Encode returns the wire form of o.
func (o Outbound) Encode() ([]byte, error) { return encode("outbound", o) }

// MaxReplies is the most quick replies that the Send API takes.
const MaxReplies = 13

// MaxCode is the longest FirstCode, in bytes: "code/subcode" has fewer, and a
// longer one could keep its dead letter from being published.
const MaxCode = 100

// DecodeOutbound parses a body from a partition or a lane. Every wrong field is
// named.
func DecodeOutbound(b []byte) (Outbound, error) {
	var o Outbound
	if err := json.Unmarshal(b, &o); err != nil {
		return Outbound{}, fmt.Errorf("decode outbound: %w", ExplainJSON(err))
	}
	o.setClass()
	if err := o.validate(); err != nil {
		return Outbound{}, fmt.Errorf("decode outbound: %w", err)
	}
	return o, nil
}

// DecodeNew parses a message from the program that makes it. fill sets fields that it may
// leave out. Unknown fields are errors, and so are the dispatchers' own.
func DecodeNew(b []byte, fill func(*Outbound)) (Outbound, error) {
	var o Outbound
	err := ReadJSON(bytes.NewReader(b), &o)
	if err == nil && (o.Attempts != 0 || o.FirstCode != "") {
		err = &FieldError{"attempts", "and first_code are written by dispatchers"}
	}
	if err == nil {
		fill(&o)
		o.setClass()
		err = o.validate()
	}
	if err != nil {
		return Outbound{}, fmt.Errorf("decode outbound: %w", err)
	}
	return o, nil
}

// setClass sets the class by the message's content: always that of audio and video,
// which would otherwise be sent against the wrong limit, and a missing one.
func (o *Outbound) setClass() {
	o.Payload = canonical(o.Payload)
	switch a := o.Attachment; {
	case a != nil && isMedia(a.Type), o.Payload != nil && readPayload(o.Payload).isMedia():
		o.Class = ClassMedia
	case o.Class == "":
		o.Class = ClassText
	}
}

// validate returns an error that names every wrong field.
func (o *Outbound) validate() error {
	var faults []error
	wrong := func(field, format string, args ...any) {
		faults = append(faults, &FieldError{field, fmt.Sprintf(format, args...)})
	}
	for _, f := range []struct{ name, value string }{{"id", o.ID}, {"page", o.Page}, {"to", o.To}} {
		if f.value == "" {
			wrong(f.name, "is empty")
		}
	}
	if o.Class != ClassText && o.Class != ClassMedia {
		wrong("class", "%.40q is unknown", o.Class)
	}
	if n := count(o.Text != "", o.Attachment != nil, o.Payload != nil, o.SenderAction != ""); n != 1 {
		wrong("text", "or attachment, payload or sender_action must be set, and only one of them")
	}
	faults = append(faults, o.validateOwn()...)
	if o.Attachment != nil && (o.Attachment.Type == "" || o.Attachment.URL == "") {
		wrong("attachment", "lacks its type or url")
	}
	if len(o.Replies) > MaxReplies {
		wrong("replies", "are %d, at most %d are possible", len(o.Replies), MaxReplies)
	}
	for i, r := range o.Replies {
		if r.Title == "" || r.Payload == "" {
			wrong("replies", "lack the title or payload of number %d", i+1)
			break
		}
	}
	if o.Attempts < 0 {
		wrong("attempts", "is negative")
	}
	if len(o.FirstCode) > MaxCode {
		wrong("first_code", "has %d bytes, at most %d are possible", len(o.FirstCode), MaxCode)
	}
	return errors.Join(faults...)
}

// Age returns the time since o's event happened, or since it could have been sent if
// that is less; never negative.
func (o Outbound) Age(now time.Time) time.Duration {
	return max(0, now.Sub(time.UnixMilli(max(o.Time, o.NotBefore))))
}

// MaxUserID is the most bytes of the id of a page or user. Today they have up to 17.
const MaxUserID = 32

// MaxCopyID is the most bytes that CopyID makes of an event's id, to anybody: a part has
// three digits at most.
func MaxCopyID(page, mid string) int { return len(page) + len(mid) + MaxUserID + 2 + 4 }

// CopyID returns the id of the copy that event (page, mid) makes for recipient.
// The same event always makes the same ids, so a repeated event is recognised
// wherever it is seen. part counts from 0 where one event makes several messages
// for one recipient. The form is `page/mid/recipient`, with `/part` behind it
// from the second part on. It is public: a judge outside the system may compute
// the ids that it expects.
func CopyID(page, mid, recipient string, part int) string {
	id := page + "/" + mid + "/" + recipient
	if part > 0 {
		id += "/" + strconv.Itoa(part)
	}
	return id
}
