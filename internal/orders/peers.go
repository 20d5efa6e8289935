package orders

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"chatclub/internal/backoff"
	"chatclub/internal/queue"
)

const (
	// askEvery is the period of asking whether settings still differ, and of saying so.
	askEvery = time.Hour
	// answerPause is the least time between two answers to programs with other settings.
	answerPause = time.Minute
)

// Settings are those that all programs that send must have in common, and whose they are.
type Settings struct {
	Program  string `json:"program"`
	Protocol int    `json:"protocol"` // its version
	Text     int    `json:"limit_text"`
	Media    int    `json:"limit_media"`
}

// differ reports whether two programs do not agree. One that tells no settings agrees with
// all: it is of an earlier version.
func (s Settings) differ(other Settings) bool {
	if s.Program == "" || other.Program == "" {
		return false
	}
	other.Program = s.Program
	return s != other
}

// mark is the body of a mark.
type mark struct {
	Settings
	Asks bool `json:"asks,omitempty"` // those with other settings are to tell theirs
}

// message returns the mark as a message on the stream.
func (m mark) message(top queue.Topology, id string) (queue.Message, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return queue.Message{}, fmt.Errorf("encode settings: %w", err)
	}
	return queue.Message{Queue: top.Orders(), ID: id, Body: body}, nil
}

// peers compares the settings of running programs. Each tells its own in the mark with which
// it begins to read the stream. A program with others answers with its own, so that both
// know. While settings differ they are asked for again, once an hour; a program that begins
// again with equal ones is no reason any more at once. Nothing is told while all are equal.
// Safe for concurrent use, after own and the marks are set.
type peers struct {
	own         Settings
	ask, answer queue.Message // marks with own

	mu        sync.Mutex
	others    map[Settings]*heard
	answered  time.Time // when an answer was given last
	answering bool      // one will be given
}

// heard says when other settings were told.
type heard struct{ last, logged time.Time }

// hear compares the settings in another program's mark. reply is the mark to be given after
// a pause, nil: none; differ reports that the difference is to be logged.
func (p *peers) hear(m mark, now time.Time) (reply *queue.Message, pause time.Duration, differ bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.own.differ(m.Settings) {
		if m.Asks && p.forgetLocked(m.Program) {
			return &p.ask, 0, false
		}
		return nil, 0, false
	}
	h := p.others[m.Settings]
	if h == nil {
		h = &heard{}
		p.others[m.Settings] = h
	}
	h.last = now
	if differ = now.Sub(h.logged) >= askEvery; differ {
		h.logged = now
	}
	if !m.Asks || p.answering {
		return nil, 0, differ
	}
	pause = max(0, answerPause-now.Sub(p.answered))
	p.answering, p.answered = true, now.Add(pause)
	return &p.answer, pause, differ
}

// gave notes that an answer was given.
func (p *peers) gave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answering = false
}

// forgetLocked forgets the settings of a kind of program, of which one has begun with equal
// ones. It reports whether there were any: those that are still there answer.
func (p *peers) forgetLocked(program string) (forgot bool) {
	for s := range p.others {
		if s.Program == program {
			delete(p.others, s)
			forgot = true
		}
	}
	return forgot
}

// asks forgets the settings that were not told since the last time, and reports whether there
// are others, which are to be asked for.
func (p *peers) asks(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s, h := range p.others {
		if now.Sub(h.last) > askEvery {
			delete(p.others, s)
		}
	}
	return len(p.others) > 0
}

// differing returns the settings that differ, in one order.
func (p *peers) differing() []Settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Settings, 0, len(p.others))
	for s := range p.others {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Settings) int {
		return cmp.Or(cmp.Compare(a.Program, b.Program), a.Protocol-b.Protocol, a.Text-b.Text, a.Media-b.Media)
	})
	return list
}

// Compare has Follow tell settings, and say which other programs have others. Call it before
// Follow.
func (b *Book) Compare(own Settings) { b.peers.own = own }

// SettingsHandler answers with the program's settings, and those of others that differ.
func (b *Book) SettingsHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(struct { // the client may be gone
			Settings
			Differ []Settings `json:"differ"`
		}{b.peers.own, b.peers.differing()})
	})
}

// hear compares the settings in another program's mark, and tells this program's where they
// are to be told.
func (b *Book) hear(ctx context.Context, broker queue.Broker, body []byte, log *slog.Logger, beside *sync.WaitGroup) {
	var m mark
	if json.Unmarshal(body, &m) != nil {
		return // of a later version, or somebody else's
	}
	reply, pause, differ := b.peers.hear(m, time.Now())
	if own := b.peers.own; differ {
		log.ErrorContext(ctx, "another program has other settings; give both the same",
			"other", m.Program, "limit_text", m.Text, "limit_media", m.Media, "protocol", m.Protocol,
			"our_limit_text", own.Text, "our_limit_media", own.Media, "our_protocol", own.Protocol)
	}
	if reply == nil {
		return
	}
	beside.Go(func() {
		if backoff.Sleep(ctx, pause) {
			putMark(ctx, broker, log, *reply)
		}
		if reply == &b.peers.answer {
			b.peers.gave()
		}
	})
}

// keepAsking asks for settings that differ once an hour, until ctx ends.
func (b *Book) keepAsking(ctx context.Context, broker queue.Broker, log *slog.Logger) {
	for backoff.Sleep(ctx, askEvery) {
		if b.peers.asks(time.Now()) {
			putMark(ctx, broker, log, b.peers.ask)
		}
	}
}
