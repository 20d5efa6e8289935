package console

import (
	"time"

	"chatclub/internal/dispatch"
	"chatclub/internal/replicas"
)

// State is all that the page shows at a moment, but for the phones.
type State struct {
	Now     time.Time `json:"now"`
	Started time.Time `json:"started"` // of the console; another one means that it was restarted
	// Demo says that everything runs in this process: there are a verdict, phones
	// and actions. ReadOnly says that no action is taken.
	Demo     bool `json:"demo"`
	ReadOnly bool `json:"read_only"`
	Login    bool `json:"login,omitempty"` // the reader has logged in

	Sentence Sentence `json:"sentence"`
	Machine  string   `json:"machine,omitempty"` // why figures are worth little just now; empty: they are good
	Verdict  *Verdict `json:"verdict,omitempty"` // nil: nobody judges
	Strategy string   `json:"strategy"`          // "chatclub" or "article"

	Pages       []Page       `json:"pages"` // in a fixed order, at most MaxPages
	AllPages    int          `json:"all_pages"`
	Dispatchers []Dispatcher `json:"dispatchers"`    // in the order in which they came
	Dead        *Dead        `json:"dead,omitempty"` // nil: they are not shown
	// Programs are webhooks, cores and dispatchers by their /readyz, and Broker is RabbitMQ; nil:
	// not asked yet, or never.
	Programs []replicas.Health      `json:"programs,omitempty"`
	Broker   *replicas.BrokerHealth `json:"broker,omitempty"`
	Actions  []Action               `json:"actions"`
	Receipts []Receipt              `json:"receipts"` // the latest first
	Markers  []Marker               `json:"markers"`  // the oldest first, of the time that the charts show
	Tour     *Tour                  `json:"tour,omitempty"`
}

// Sentence says what is happening, in plain words.
type Sentence struct {
	Text  string `json:"text"`
	Level Level  `json:"level"`
}

// Level is the degree of trouble.
type Level string

// The levels.
const (
	Calm   Level = "calm"
	Excess Level = "excess" // something waits for its limit
	Sick   Level = "sick"   // something does not work
)

// Verdict holds the counts of the demo's judge.
type Verdict struct {
	Expected   int64 `json:"expected"` // copies that should arrive
	Accepted   int64 `json:"accepted"`
	Waiting    int64 `json:"waiting"` // expected and not accepted yet
	Lost       int64 `json:"lost"`    // that nobody holds any more
	Duplicated int64 `json:"duplicated"`
	Explained  int64 `json:"explained"` // of those, the calls in flight of killed dispatchers
	Unexpected int64 `json:"unexpected"`
	Refused    int64 `json:"refused"` // calls
}

// Page is one page's part.
type Page struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Color int    `json:"color"`         // 0 to 7
	State string `json:"state"`         // "free", "excess", "sick", "paused" or "suspended"
	Why   string `json:"why,omitempty"` // it is stopped, or waits as the platform asked

	Since    *time.Time        `json:"since,omitempty"`   // in excess
	Limit    int               `json:"limit"`             // calls a second
	Asked    int               `json:"asked"`             // copies that came in the last second
	Sent     int               `json:"sent"`              // calls that were accepted in the last second
	Refused  int               `json:"refused"`           // calls that were refused in it
	Waiting  int               `json:"waiting"`           // copies
	Wait     float64           `json:"wait"`              // seconds that a new one will wait; 0 while nothing is sent for the page
	Oldest   float64           `json:"oldest"`            // age of the first that waits, in seconds
	Reason   dispatch.Reason   `json:"reason,omitempty"`  // what most of them wait for
	Short    string            `json:"short,omitempty"`   // the same in a word or three, and
	Waits    string            `json:"waits,omitempty"`   // as it follows "12 wait"
	Ends     *time.Time        `json:"ends,omitempty"`    // when that ends, or is probed; nil: that is not known
	Arrival  *dispatch.Arrival `json:"arrival,omitempty"` // of a message that is written now
	Delay    float64           `json:"delay"`             // mean seconds that those sent in the last second had waited
	Pace     float64           `json:"pace"`              // calls a second, in excess
	InFlight int               `json:"in_flight"`
	Owner    string            `json:"owner,omitempty"` // name of the dispatcher that sends for it

	// History has one number for each second, the last one of a second that is
	// over. All lists are equally long, at most HistorySeconds.
	History History `json:"history"`
}

// History holds the numbers of the last seconds, one for each second.
type History struct {
	End     int64 `json:"end"` // Unix time of the last second
	Sent    []int `json:"sent"`
	Refused []int `json:"refused"`
	Asked   []int `json:"asked"`
	Limit   []int `json:"limit"`
	Waiting []int `json:"waiting"`
	Delay   []int `json:"delay"` // milliseconds
}

const (
	// MaxPages is the number of pages shown: those that have most to do.
	MaxPages = 12
	// HistorySeconds are drawn of each.
	HistorySeconds = 120
)

// Dispatcher is one replica.
type Dispatcher struct {
	Name       string     `json:"name"`
	State      string     `json:"state"` // "running", "hung", "stopping", "killed" or "lost": it does not answer
	Since      time.Time  `json:"since"` // in this state
	Calls      int        `json:"calls"` // that ended in the last second
	InFlight   int        `json:"in_flight"`
	Limit      int        `json:"limit"`              // calls at a time; 0: not known
	APIDown    bool       `json:"api_down,omitempty"` // as it sees it
	Partitions []int      `json:"partitions"`
	Pages      []string   `json:"pages"`  // ids of those that it sends for, and that are shown
	Excess     []InExcess `json:"excess"` // its own excess map
	Error      string     `json:"error,omitempty"`
}

// InExcess is a page in one dispatcher's excess map.
type InExcess struct {
	Page     string  `json:"page"`
	Class    string  `json:"class"`
	Pace     float64 `json:"pace"`
	Waiting  int     `json:"waiting"`
	InFlight int     `json:"in_flight"`
	Refused  int     `json:"refused"`
	// Lanes are its queues there.
	Lanes []string `json:"lanes,omitempty"`
}

// Action is something that a visitor can do.
type Action struct {
	Name    string     `json:"name"` // for POST /actions/NAME
	Enabled bool       `json:"enabled"`
	Why     string     `json:"why,omitempty"`   // it is not enabled
	Until   *time.Time `json:"until,omitempty"` // it is going on
	Page    string     `json:"page,omitempty"`  // for this one
}

// Receipt is the result of an action.
type Receipt struct {
	N     int       `json:"n"`
	At    time.Time `json:"at"`
	Done  bool      `json:"done"` // the text is final
	Text  string    `json:"text"`
	Level Level     `json:"level"`
}

// Marker is a moment in the charts.
type Marker struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`           // some words
	Page string    `json:"page,omitempty"` // the only one that it concerns
}

// Tour is the position in the tour.
type Tour struct {
	Step int    `json:"step"` // from 1
	Of   int    `json:"of"`
	Text string `json:"text"`
}
