package browsertest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"chatclub/internal/console"
)

// states calls see with each state that chatclub's page is sent, until see returns
// false. It returns an error when the stream ends before that.
func (s *system) states(see func(console.State) bool) error {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.page+"/state", http.NoBody)
	if err != nil {
		return fmt.Errorf("read the states: %w", err)
	}
	endless := &http.Client{Transport: s.client.Transport}
	resp, err := endless.Do(req)
	if err != nil {
		return fmt.Errorf("read the states: %w", err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	kind := ""
	for lines.Scan() {
		if name, ok := bytes.CutPrefix(lines.Bytes(), []byte("event: ")); ok {
			kind = string(name)
		}
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || kind != "state" {
			continue
		}
		var x console.State
		if err := json.Unmarshal(data, &x); err != nil {
			return fmt.Errorf("read the states: %w", err)
		}
		if !see(x) {
			return nil
		}
	}
	return errors.Join(errors.New("the stream of states ended"), lines.Err())
}

// await returns the first state of which ok is true.
func (s *system) await(what string, ok func(console.State) bool) (last console.State) {
	s.t.Helper()
	err := s.states(func(x console.State) bool {
		last = x
		return !ok(x)
	})
	if err != nil {
		s.t.Fatalf("wait until %s: %v; the last state was %q", what, err, last.Sentence.Text)
	}
	return last
}

// state returns the state that chatclub's page shows now.
func (s *system) state() console.State {
	s.t.Helper()
	return s.await("there is a state", func(console.State) bool { return true })
}

// measured is the longest time until the figures of the machine include a moment: package
// demo takes them every 5 s, looks once a second whether it is time, and the next state has
// them.
const measured = 7 * time.Second

// watchMachine notes from now on why the figures are worth little. The function that it
// returns waits until the machine is measured up to a moment, and returns the last reason;
// "" if there was none. It may be called once.
func (s *system) watchMachine() (busyUntil func(moment time.Time) string) {
	moments, ended := make(chan time.Time, 1), make(chan error, 1)
	why := ""
	var watching sync.WaitGroup
	watching.Go(func() {
		var end time.Time
		ended <- s.states(func(x console.State) bool {
			if x.Machine != "" {
				why = x.Machine
			}
			select {
			case moment := <-moments:
				end = moment.Add(measured)
			default:
			}
			return end.IsZero() || x.Now.Before(end)
		})
	})
	s.t.Cleanup(watching.Wait) // the end of the test ends it, unless it was asked
	return func(moment time.Time) string {
		s.t.Helper()
		moments <- moment
		if err := <-ended; err != nil {
			s.t.Fatalf("wait until the machine is measured: %v", err)
		}
		return why
	}
}
