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
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// pollInterval is how soon a change of the file is seen. Asking works on every file
// system and for files replaced by rename, where notification does not. It costs
// reading the file: with 10,000 pages 2 MB, some 2 ms.
const pollInterval = 2 * time.Second

// Pages is a TokenSource: every page's token, from a JSON object of page id to
// token. The tokens are behind a pointer that formatting does not follow. Make
// one with OpenPagesFile or StaticTokens. Token is safe for concurrent use.
type Pages struct {
	tokens atomic.Pointer[map[string]string]
	path   string // empty: they never change
	log    *slog.Logger
	change func(pages []string) // nil: nobody asks

	// Of Run alone.
	seen  digest // of the content in use
	fault string // logged last and still there; empty while all is well
}

// digest tells two contents of a file apart. Size and time do not: tokens are of one
// length, and copying can keep the time.
type digest [sha256.Size]byte

// StaticTokens makes Pages that never change.
func StaticTokens(tokens map[string]string) *Pages {
	p := &Pages{}
	copied := maps.Clone(tokens)
	p.tokens.Store(&copied)
	return p
}

// OpenPagesFile reads a pages file; the error names every page at fault and no
// token. The tokens follow the file's changes while Run runs.
func OpenPagesFile(path string, log *slog.Logger) (*Pages, error) {
	p := &Pages{path: path, log: log}
	tokens, seen, err := readPagesFile(path)
	if err != nil {
		return nil, fmt.Errorf("open pages file: %w", err)
	}
	p.tokens.Store(&tokens)
	p.seen = seen
	return p, nil
}

// OnChange has f called with the pages whose token appeared or changed, by the
// goroutine of Run. Call it before Run.
func (p *Pages) OnChange(f func(pages []string)) { p.change = f }

// Token implements TokenSource.
func (p *Pages) Token(page string) (string, bool) {
	token, ok := (*p.tokens.Load())[page]
	return token, ok
}

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
	if now, err := digestFile(p.path); err == nil && now == p.seen {
		p.fault = ""
		return
	}
	tokens, seen, err := readPagesFile(p.path)
	if err != nil {
		if p.fault != err.Error() {
			p.fault = err.Error()
			p.log.Error("pages file is faulty, its last good content stays in use", "path", p.path, "err", err)
		}
		return
	}
	changed, gone := compare(*p.tokens.Load(), tokens)
	if before := len(*p.tokens.Load()); 2*len(gone) > before {
		if fault := fmt.Sprintf("%d pages", len(gone)); p.fault != fault {
			p.fault = fault
			p.log.Error("pages file has lost more than half of its pages, its last content stays in use; restart to take it",
				"path", p.path, "lost", len(gone), "of", before)
		}
		return
	}
	p.tokens.Store(&tokens)
	p.seen, p.fault = seen, ""
	p.log.Info("pages file read again", "path", p.path, "pages", len(tokens), "changed", len(changed))
	if len(gone) > 0 {
		p.log.Warn("pages are gone from the pages file", "path", p.path, "count", len(gone), "first", gone[:min(len(gone), 10)])
	}
	if p.change != nil && len(changed) > 0 {
		p.change(changed)
	}
}

// compare returns the pages whose token is new or another one, and those that
// have none any more, in order.
func compare(before, after map[string]string) (changed, gone []string) {
	for page, token := range after {
		if old, ok := before[page]; !ok || old != token {
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

// digestFile reads a file without keeping it.
func digestFile(path string) (d digest, err error) {
	f, err := openFile(path)
	if err != nil {
		return d, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return d, err
	}
	h.Sum(d[:0])
	return d, nil
}

// openFile opens a regular file, or a link to one. A pipe would be waited for.
func openFile(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	return os.Open(path)
}

// readPagesFile returns the tokens, and the digest of what they were read from. Some
// editors put a mark of the encoding before them.
func readPagesFile(path string) (map[string]string, digest, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, digest{}, err
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil {
		return nil, digest{}, err
	}
	tokens, err := parsePages(bytes.NewReader(bytes.TrimPrefix(content, []byte("\ufeff"))))
	if err != nil {
		return nil, digest{}, fmt.Errorf("parse %s: %w", path, err)
	}
	return tokens, sha256.Sum256(content), nil
}

// parsePages reads one JSON object of page id to token. encoding/json would
// take the last of two equal keys without a word; here it is a fault.
func parsePages(r io.Reader) (map[string]string, error) {
	dec := json.NewDecoder(r)
	if open, err := dec.Token(); err != nil {
		return nil, syntaxFault(dec, err)
	} else if open != json.Delim('{') {
		return nil, errors.New("must be a JSON object of page id to token")
	}
	tokens := make(map[string]string)
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
		token, err := parseToken(raw)
		if _, twice := tokens[page]; twice {
			err = errors.Join(errors.New("occurs twice"), err)
		}
		if !validPage(page) {
			err = errors.Join(errors.New("is not a page id"), err)
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", entryName(page, n), err))
		}
		tokens[page] = token
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return nil, errors.Join(append(faults, syntaxFault(dec, err))...)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		faults = append(faults, errors.New("something follows the object"))
	}
	return tokens, errors.Join(faults...)
}

// parseToken takes what can stand in an HTTP header, and quotes nothing of it.
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
