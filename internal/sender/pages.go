package sender

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"chatclub/internal/message"
)

// pollInterval is the period of reading the file. Polling works on every file system
// and for files replaced by rename, where notification does not. It costs reading the
// file: with 10,000 pages 2 MB, some 2 ms.
const pollInterval = 2 * time.Second

// Pages is a TokenSource: every page's token, and its limits where it has its own, from a
// JSON object of page id to token, or to {"token": …, "limits": {"text": 80, "media": 5}}
// with limits as message.Limits has them. The tokens are behind a pointer that formatting does not follow.
// Make one with OpenPagesFile or StaticTokens. Token and Limits are safe for concurrent
// use.
type Pages struct {
	entries atomic.Pointer[map[string]entry]
	path    string // empty: they never change
	log     *slog.Logger
	change  func(pages []string) // nil: nobody asks

	// Of Run alone.
	seen  digest // of the content in use
	fault string // logged last and still there; empty while all is well
}

// entry is one page.
type entry struct {
	token  string
	limits message.Limits // 0: the page has none of its own
}

// digest tells two contents of a file apart. Size and time do not: tokens are of one
// length, and copying can keep the time.
type digest [sha256.Size]byte

// StaticTokens makes Pages that never change.
func StaticTokens(tokens map[string]string) *Pages {
	p := &Pages{}
	entries := make(map[string]entry, len(tokens))
	for page, token := range tokens {
		entries[page] = entry{token: token}
	}
	p.entries.Store(&entries)
	return p
}

// OpenPagesFile reads a pages file; the error names every page at fault and no
// token. The tokens follow the file's changes while Run runs.
func OpenPagesFile(path string, log *slog.Logger) (*Pages, error) {
	p := &Pages{path: path, log: log}
	entries, seen, err := readPagesFile(path, digest{})
	if err != nil {
		return nil, fmt.Errorf("open pages file: %w", err)
	}
	p.entries.Store(&entries)
	p.seen = seen
	return p, nil
}

// OnChange has f called with the pages that appeared, changed or are gone, by the goroutine of Run. Call it before Run.
func (p *Pages) OnChange(f func(pages []string)) { p.change = f }

// Token implements TokenSource.
func (p *Pages) Token(page string) (string, bool) {
	e, ok := (*p.entries.Load())[page]
	return e.token, ok
}

// Limits returns the limits of a page that the file gives.
func (p *Pages) Limits(page string) message.Limits { return (*p.entries.Load())[page].limits }

// Run follows the file until ctx ends, then returns nil. A file that is missing
// or broken is logged once and changes nothing. The tokens that were read last
// stay in use, and the file is tried again until it is whole. Call it once.
func (p *Pages) Run(ctx context.Context) error {
	if p.path == "" {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			p.poll()
		}
	}
}

func (p *Pages) poll() {
	entries, seen, err := readPagesFile(p.path, p.seen)
	if err == nil && seen == p.seen {
		p.fault = ""
		return
	}
	if err != nil {
		if p.fault != err.Error() {
			p.fault = err.Error()
			p.log.Error("pages file is faulty, its last good content stays in use", "path", p.path, "err", err)
		}
		return
	}
	changed, gone := compare(*p.entries.Load(), entries)
	if before := len(*p.entries.Load()); 2*len(gone) > before {
		if fault := fmt.Sprintf("%d pages", len(gone)); p.fault != fault {
			p.fault = fault
			p.log.Error("pages file has lost more than half of its pages, its last content stays in use; restart to take it",
				"path", p.path, "lost", len(gone), "of", before)
		}
		return
	}
	p.entries.Store(&entries)
	p.seen, p.fault = seen, ""
	p.log.Info("pages file read again", "path", p.path, "pages", len(entries), "changed", len(changed))
	if len(gone) > 0 {
		p.log.Warn("pages are gone from the pages file", "path", p.path, "count", len(gone), "first", gone[:min(len(gone), 10)])
	}
	if all := slices.Concat(changed, gone); p.change != nil && len(all) > 0 {
		p.change(all)
	}
}

// compare returns the pages that are new or changed, and those that are there no more, in
// order.
func compare(before, after map[string]entry) (changed, gone []string) {
	for page, e := range after {
		if old, ok := before[page]; !ok || old != e {
			changed = append(changed, page)
		}
	}
	for page := range before {
		if _, ok := after[page]; !ok {
			gone = append(gone, page)
		}
	}
	slices.Sort(changed)
	slices.Sort(gone)
	return changed, gone
}

// readPagesFile returns the pages, and the digest of the file: no pages
// where that is known. Some editors put a mark of the encoding before them. It takes a
// regular file, or a link to one; a pipe would be waited for.
func readPagesFile(path string, known digest) (map[string]entry, digest, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	var content []byte
	if err == nil {
		content, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, digest{}, err
	}
	now := digest(sha256.Sum256(content))
	if now == known {
		return nil, now, nil
	}
	entries, err := parsePages(bytes.NewReader(bytes.TrimPrefix(content, []byte("\ufeff"))))
	if err != nil {
		return nil, digest{}, fmt.Errorf("parse %s: %w", path, err)
	}
	return entries, now, nil
}

// parsePages reads one JSON object of page id to entry. encoding/json would
// take the last of two equal keys without a word; here it is a fault.
func parsePages(r io.Reader) (map[string]entry, error) {
	dec := json.NewDecoder(r)
	if open, err := dec.Token(); err != nil {
		return nil, syntaxFault(dec, err)
	} else if open != json.Delim('{') {
		return nil, errors.New("must be a JSON object of page id to token")
	}
	entries := make(map[string]entry)
	var faults []error
	for n := 1; dec.More(); n++ {
		key, err := dec.Token()
		if err != nil {
			return nil, errors.Join(append(faults, syntaxFault(dec, err))...)
		}
		page, _ := key.(string) // the decoder lets nothing else be a key
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, errors.Join(append(faults, syntaxFault(dec, err))...)
		}
		e, err := parseEntry(raw)
		if _, twice := entries[page]; twice {
			err = errors.Join(errors.New("occurs twice"), err)
		}
		if !validPage(page) {
			err = errors.Join(errors.New("is not a page id"), err)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", entryName(page, n), err))
		}
		entries[page] = e
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return nil, errors.Join(append(faults, syntaxFault(dec, err))...)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		faults = append(faults, errors.New("something follows the object"))
	}
	return entries, errors.Join(faults...)
}

// parseEntry takes a token, or an object with a token and limits.
func parseEntry(raw json.RawMessage) (entry, error) {
	if len(raw) == 0 || raw[0] != '{' {
		token, err := parseToken(raw)
		return entry{token: token}, err
	}
	var object struct {
		Token  json.RawMessage `json:"token"`
		Limits message.Limits  `json:"limits"`
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&object); err != nil {
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return entry{}, message.ExplainJSON(err)
		}
		return entry{}, errors.New("holds a field other than token and limits, or limits other than text, media and recipient")
	}
	token, err := parseToken(object.Token)
	return entry{token, object.Limits}, errors.Join(err, object.Limits.Validate())
}

// parseToken takes a text that can stand in an HTTP header, and quotes nothing of it.
func parseToken(raw json.RawMessage) (string, error) {
	var token string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &token) != nil {
		return "", errors.New("token is not a string")
	}
	if token == "" {
		return "", errors.New("token is empty")
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c >= 0x7f {
			return "", errors.New("token holds a space, a control character or a letter beyond ASCII")
		}
	}
	return token, nil
}

// entryName names an entry for an error by its page id. Where the key may be a
// token in the wrong column, it names the entry by its place. A page id has 15
// to 17 digits, a token some 200 letters; 32 lies between.
func entryName(page string, n int) string {
	if validPage(page) && len(page) <= 32 {
		return "page " + page
	}
	return fmt.Sprintf("entry %d", n)
}

func syntaxFault(dec *json.Decoder, err error) error {
	// encoding/json has three ways to say it, and not all versions the same.
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.HasPrefix(err.Error(), "unexpected end") {
		return errors.New("ends too early")
	}
	return fmt.Errorf("byte %d: %w", dec.InputOffset(), err)
}
