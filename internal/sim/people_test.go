package sim

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"time"
)

// act has people and bots do something on each page, now.
func (w *world) act() {
	r := w.script
	for _, page := range w.pages {
		people := w.people[page]
		switch d := r.IntN(40); {
		case d < w.lively:
			w.write(page, people[r.IntN(len(people))], "text", true)
		case d == 30:
			for range 5 + r.IntN(20) {
				w.write(page, people[r.IntN(len(people))], "burst", true)
			}
		case d == 31:
			w.submits(page, 1+r.IntN(60))
		case d == 32:
			guest := fmt.Sprintf("8%03d", r.IntN(4))
			switch r.IntN(3) {
			case 0:
				w.write(page, guest, "/leave", false)
			case 1:
				w.write(page, guest, "I am a guest", false)
			case 2:
				mid := w.mid("t")
				w.post(page, guest, mid, map[string]any{"postback": map[string]any{"mid": mid, "title": "x", "payload": "GET_STARTED"}}, func() {})
			}
		}
	}
}

// mid returns an id that no other has.
func (w *world) mid(prefix string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock++
	return fmt.Sprintf("m_%s%d", prefix, w.clock)
}

// post has Messenger post an event until it is taken.
func (w *world) post(page, user, mid string, what map[string]any, then func()) {
	at := time.Now()
	item := map[string]any{"sender": map[string]string{"id": user}, "recipient": map[string]string{"id": page}, "timestamp": at.UnixMilli()}
	maps.Copy(item, what)
	body, err := json.Marshal(map[string]any{"object": "page", "entry": []any{map[string]any{"id": page, "time": at.UnixMilli(), "messaging": []any{item}}}})
	if err != nil {
		panic(err) // of maps and strings: never
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	sign := "sha256=" + hex.EncodeToString(mac.Sum(nil))
	w.work.Go(func() {
		for try := 0; ; try++ {
			req := httptest.NewRequest(http.MethodPost, "/webhook", bytes.NewReader(body))
			req.Header.Set("X-Hub-Signature-256", sign)
			req.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			if w.hook.ServeHTTP(rec, req); rec.Code == http.StatusOK {
				then()
				return
			}
			w.note("person", fmt.Sprint("answer ", rec.Code), "", mid)
			time.Sleep(time.Duration(1+try) * time.Second)
		}
	})
}

// write has a person write.
func (w *world) write(page, user, words string, stable bool) {
	w.mu.Lock()
	w.clock++
	x := &text{page: page, mid: fmt.Sprintf("m_%d", w.clock), user: user, posted: w.now(), begun: w.clock, stable: stable}
	w.texts = append(w.texts, x)
	w.mu.Unlock()
	w.note("person", "writes "+words, page+" "+user, page+"/"+x.mid+"/")
	w.post(page, user, x.mid, map[string]any{"message": map[string]any{"mid": x.mid, "text": words}}, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.clock++
		x.ended, x.answered = w.clock, w.now()
	})
}

// submits has a bot of its own send n messages.
func (w *world) submits(page string, n int) {
	people := w.people[page]
	var list []map[string]any
	for range n {
		o := map[string]any{"id": page + "/" + w.mid("bot"), "page": page, "to": people[w.script.IntN(len(people))], "text": "bot"}
		if w.script.IntN(6) == 0 {
			delete(o, "text")
			o["attachment"] = map[string]string{"type": "audio", "url": "https://x/a.ogg"}
		}
		list = append(list, o)
	}
	body, err := json.Marshal(list)
	if err != nil {
		panic(err) // as above
	}
	w.work.Go(func() {
		for {
			rec := httptest.NewRecorder()
			w.sub.ServeHTTP(rec, httptest.NewRequest(http.MethodPost, "/messages", bytes.NewReader(body)))
			switch rec.Code {
			case http.StatusAccepted:
				return
			case http.StatusBadRequest:
				w.fail("SUBMIT", "", "%s", rec.Body)
				return
			}
			time.Sleep(time.Second)
		}
	})
}

// round has each person write once.
func (w *world) round(words string, stable bool) {
	for _, page := range w.pages {
		for _, p := range w.people[page] {
			w.write(page, p, words, stable)
			time.Sleep(300 * time.Millisecond)
		}
	}
}
