package fakeapi

import (
	"encoding/json"
	"unicode/utf8"
)

// parseFast reads the common body, {"recipient":{"id":…},"messaging_type":…,
// "message":{"text":…,"metadata":…}} with strings alone, at a fifth of
// encoding/json's cost. That matters because the fake shares its cores with the
// system under test. For everything else, valid or not, parseFast returns false
// and leaves it to encoding/json. Where it returns true both give the same
// (FuzzParseFast).
func parseFast(raw []byte, b *sendBody) bool {
	s := scanner{b: raw}
	ok := s.object(func(key []byte) bool {
		switch string(key) {
		case "access_token":
			return s.string(&b.Token)
		case "messaging_type":
			return s.string(&b.MessagingType)
		case "tag":
			return s.string(&b.Tag)
		case "sender_action":
			return s.string(&b.SenderAction)
		case "recipient":
			return b.Recipient == nil && s.recipient(b)
		case "message":
			return b.Message == nil && s.message(b)
		}
		return false
	})
	s.space()
	return ok && s.i == len(s.b)
}

func (s *scanner) recipient(b *sendBody) bool {
	b.Recipient = new(nested[recipient])
	return s.object(func(key []byte) bool {
		return string(key) == "id" && s.string((*string)(&b.Recipient.v.ID))
	})
}

func (s *scanner) message(b *sendBody) bool {
	b.Message = new(nested[outMessage])
	m := &b.Message.v
	return s.object(func(key []byte) bool {
		switch string(key) {
		case "text":
			m.Text = new(string)
			return s.string(m.Text)
		case "metadata":
			return s.string(&m.Metadata)
		}
		return false
	})
}

// scanner walks over JSON.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
}

// next skips white space and then c, and reports whether c was there.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

// object reads an object with at least one member, whose value member reads. It
// reports whether the object is one that parseFast takes.
func (s *scanner) object(member func(key []byte) bool) bool {
	if !s.next('{') {
		return false
	}
	for {
		key, plain := s.quoted()
		if !plain || !s.next(':') || !member(key[1:len(key)-1]) {
			return false
		}
		if !s.next(',') {
			return s.next('}')
		}
	}
}

func (s *scanner) string(to *string) bool {
	q, plain := s.quoted()
	switch {
	case q == nil:
		return false
	case plain:
		*to = string(q[1 : len(q)-1])
		return true
	}
	return json.Unmarshal(q, to) == nil
}

// quoted reads a string with its quotes, nil if there is none. plain reports
// whether it has no escape and no byte that JSON forbids.
func (s *scanner) quoted() (q []byte, plain bool) {
	if !s.next('"') {
		return nil, false
	}
	begin := s.i - 1
	plain = true
	ascii := true
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			q = s.b[begin:s.i]
			return q, plain && (ascii || utf8.Valid(q))
		case c == '\\':
			plain = false
			s.i++ // the next byte is not the end
		case c < ' ':
			plain = false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return nil, false
}
