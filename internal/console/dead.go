package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"chatclub/internal/audit"
	"chatclub/internal/backoff"
	"chatclub/internal/deadletter"
	"chatclub/internal/message"
)

const (
	// shownLetters are listed, the oldest first. All are counted.
	shownLetters = 100
	// replayRate is the number of letters sent again in a second, as by chatclubctl.
	replayRate = 100
	// countEvery is the period of counting dead letters.
	countEvery = 5 * time.Second
	// countTimeout bounds one count.
	countTimeout = 3 * time.Second
	// maxDeadBody bounds what is asked about letters: as many ids as are shown, of
	// which none has more than a kilobyte.
	maxDeadBody = 256 << 10
)

// Dead is the number of dead letters, as far as it is known.
type Dead struct {
	Count int    `json:"count"`           // -1: not known yet
	Error string `json:"error,omitempty"` // why it is not known, or not that of now
}

// deadLetters serves the dead-letter queue to the page, one request at a time: two
// would see a part of it each.
type deadLetters struct {
	queue    deadletter.Queue
	readOnly bool // no payload is shown, and nothing taken off
	turn     chan struct{}
	count    func(Dead) // is told the number of letters
}

func newDeadLetters(queue deadletter.Queue, readOnly bool, count func(Dead)) *deadLetters {
	return &deadLetters{queue: queue, readOnly: readOnly, turn: make(chan struct{}, 1), count: count}
}

// watch counts the letters until ctx ends.
func (d *deadLetters) watch(ctx context.Context) {
	for known := -1; ; {
		n, ok, err := d.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.count(Dead{Count: known, Error: err.Error()})
		case ok:
			known = n
			d.count(Dead{Count: known})
		}
		if !backoff.Sleep(ctx, countEvery) {
			return
		}
	}
}

func (d *deadLetters) ask(ctx context.Context) (n int, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	return d.queue.Count(ctx)
}

// mount adds the page's requests:
//
//	GET  /dead?page=&reason=      the oldest letters that are meant, and how many there are of each reason
//	GET  /dead/payload?id=        the messages of a letter's id
//	POST /dead/replay             see deadRequest; answers how many of each reason were replayed, and kept
//	POST /dead/purge              the same
func (d *deadLetters) mount(mux *http.ServeMux) {
	mux.HandleFunc("GET /dead", d.serve(d.list))
	mux.HandleFunc("GET /dead/payload", d.serve(d.change(d.payload)))
	mux.HandleFunc("POST /dead/replay", d.serve(d.change(d.replay)))
	mux.HandleFunc("POST /dead/purge", d.serve(d.change(d.purge)))
}

// wrongRequest is the error of a request that is refused, with its status.
type wrongRequest struct {
	status int
	why    string
}

func (e *wrongRequest) Error() string { return e.why }

func badRequest(format string, args ...any) error {
	return &wrongRequest{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// serve answers with do's result, when it is this request's turn.
func (d *deadLetters) serve(do func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case d.turn <- struct{}{}:
			defer func() { <-d.turn }()
		case <-r.Context().Done():
			return
		}
		answer, err := do(r)
		wrong, isWrong := errors.AsType[*wrongRequest](err)
		switch {
		case err == nil:
			answerJSON(w, http.StatusOK, answer)
		case isWrong:
			refuse(w, wrong.status, wrong.why)
		case errors.Is(err, deadletter.ErrInUse):
			refuse(w, http.StatusConflict, err.Error())
		default:
			refuse(w, http.StatusServiceUnavailable, err.Error())
		}
	}
}

// change refuses changes on a page that only shows.
func (d *deadLetters) change(do func(*http.Request) (any, error)) func(*http.Request) (any, error) {
	if !d.readOnly {
		return do
	}
	return func(*http.Request) (any, error) { return nil, &wrongRequest{http.StatusForbidden, onlyShows} }
}

// list answers GET /dead.
func (d *deadLetters) list(r *http.Request) (any, error) {
	query := r.URL.Query()
	filter, err := filterOf(query.Get("page"), query.Get("reason"))
	if err != nil {
		return nil, err
	}
	began := d.queue.Now() // what dies from now on is not meant, counted or not
	first := deadletter.Oldest{Most: shownLetters, Letters: []deadletter.Letter{}}
	counts, err := d.queue.List(r.Context(), filter, first.Add)
	if err != nil {
		return nil, err
	}
	if query.Get("page") == "" && query.Get("reason") == "" {
		d.count(Dead{Count: counts.Total()})
	}
	return map[string]any{"letters": first.Letters, "before": began, "total": counts.Total(), "reasons": counts, "known": message.Reasons()}, nil
}

// filterOf is the filter of a page and a reason, of which each may be empty.
func filterOf(page, reason string) (f deadletter.Filter, err error) {
	f.Page = page
	if reason != "" {
		if !slices.Contains(message.Reasons(), message.Reason(reason)) {
			return f, badRequest("reason: %.40q is none of %v", reason, message.Reasons())
		}
		f.Reasons = []message.Reason{message.Reason(reason)}
	}
	return f, nil
}

// payload answers GET /dead/payload.
func (d *deadLetters) payload(r *http.Request) (any, error) {
	id := r.URL.Query().Get("id")
	if id == "" {
		return nil, badRequest("id: must be given")
	}
	var bodies []string
	_, err := d.queue.List(r.Context(), deadletter.Filter{IDs: []string{id}}, func(l deadletter.Letter) error {
		bodies = append(bodies, string(l.Body()))
		return nil
	})
	if err == nil && bodies == nil {
		err = &wrongRequest{http.StatusNotFound, "no dead letter has this id any more"}
	}
	return map[string][]string{"payloads": bodies}, err
}

// deadRequest says which letters are meant: those of IDs, or those of Page and Reason, of
// which each may be empty, that died before a list was made: it says Before.
type deadRequest struct {
	IDs    []string  `json:"ids"`
	Before time.Time `json:"before"`
	Page   string    `json:"page"`
	Reason string    `json:"reason"`
	Renew  bool      `json:"renew"` // their age begins again; of a replay only
}

// readDead returns the request and its filter.
func readDead(r *http.Request) (in deadRequest, f deadletter.Filter, err error) {
	if err := message.ReadJSON(io.LimitReader(r.Body, maxDeadBody), &in); err != nil {
		return in, f, badRequest("the body is not what is asked about dead letters: %v", err)
	}
	if in.Before.IsZero() == (len(in.IDs) == 0) {
		return in, f, badRequest("ids: either they or before must be given")
	}
	audit.Note(r.Context(), slog.String("page", in.Page), slog.String("reason", in.Reason), slog.Int("ids", len(in.IDs)))
	f, err = filterOf(in.Page, in.Reason)
	f.IDs, f.Before = in.IDs, in.Before
	return in, f, err
}

func (d *deadLetters) replay(r *http.Request) (any, error) {
	in, filter, err := readDead(r)
	if err != nil {
		return nil, err
	}
	out, err := d.queue.Replay(r.Context(), deadletter.Replay{Filter: filter, Rate: replayRate, Renew: in.Renew})
	audit.Note(r.Context(), slog.Int("replayed", out.Replayed.Total()))
	return map[string]deadletter.Counts{"replayed": out.Replayed, "kept": out.Kept}, partly("replayed", out.Replayed, err)
}

func (d *deadLetters) purge(r *http.Request) (any, error) {
	_, filter, err := readDead(r)
	if err != nil {
		return nil, err
	}
	counts, err := d.queue.Purge(r.Context(), filter)
	audit.Note(r.Context(), slog.Int("purged", counts.Total()))
	return map[string]deadletter.Counts{"purged": counts}, partly("purged", counts, err)
}

// partly adds to an error the work done before it.
func partly(what string, counts deadletter.Counts, err error) error {
	if err == nil || counts.Total() == 0 {
		return err
	}
	return fmt.Errorf("%w; %s before: %d", err, what, counts.Total())
}
