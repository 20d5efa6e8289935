package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"chatclub/internal/message"
)

// model is a naive model of a page, of plain maps and loops. It shares no code with
// the implementation.
type model struct {
	capacity    int
	idle        time.Duration
	people      map[string]*modelPerson
	rooms       map[int]*modelRoom
	guests      int
	lastRoom    int // the highest number given
	pausedUntil int64
	pausedAt    int64 // the youngest cause
	resumedAt   int64
}

type modelPerson struct {
	name, nameHere string
	room           int // 0: none
	lastPublic     int
	lastCode       string
	seen           int64
	closed         bool
	failing        int64 // until then
	muted, banned  int64
	banTold        bool
	blocked        map[string]string // PSID to name
}

type modelRoom struct {
	code    string
	members []string
}

// outcome is the expected outcome of an event.
type outcome struct {
	notice bool              // its user gets an answer
	copies map[string]string // PSID to text
}

func newModel(capacity int, idle time.Duration) *model {
	return &model{capacity: capacity, idle: idle, people: map[string]*modelPerson{}, rooms: map[int]*modelRoom{}}
}

func (m *model) apply(ev message.Event) outcome {
	var out outcome
	switch ev.Kind {
	case message.KindFeedback:
		m.feedback(ev)
	case message.KindPolicy:
		m.policy(ev)
	default:
		out = m.event(ev)
		if ev.Time < m.pausedUntil {
			out = outcome{}
		}
	}
	return out
}

func (m *model) policy(ev message.Event) {
	if ev.Action == "block" {
		m.pause(ev.Time, 1<<62)
		return
	}
	if ev.Time >= m.pausedAt {
		m.pausedUntil = 0
	}
	m.resumedAt = max(m.resumedAt, ev.Time)
}

// pause is never shortened by another, and has no effect after a resumption that is
// younger than its cause.
func (m *model) pause(at, until int64) {
	if until > m.pausedUntil && at > m.resumedAt {
		m.pausedUntil, m.pausedAt = until, max(m.pausedAt, at)
	}
}

func (m *model) feedback(ev message.Event) {
	p := m.people[ev.User]
	switch message.Reason(ev.Reason) {
	case message.ReasonPageStopped:
		m.pause(ev.Time, ev.Until)
	case message.ReasonGone:
		if p != nil && p.seen <= ev.Time {
			m.leave(ev.User)
		}
	case message.ReasonFailing:
		if p != nil && p.seen <= ev.Time {
			p.failing = max(p.failing, ev.Until)
		}
	default:
		if p != nil && p.seen <= ev.Time {
			p.closed = true
		}
	}
}

func (m *model) event(ev message.Event) outcome {
	p := m.people[ev.User]
	if p == nil {
		p = &modelPerson{lastPublic: 1, blocked: map[string]string{}}
		m.people[ev.User] = p
	}
	if ev.Kind == message.KindIdle {
		told := p.room != 0 && p.seen <= ev.Time-m.idle.Milliseconds()
		if told {
			m.leave(ev.User)
			told = !p.closed && p.failing <= ev.Time && p.seen > ev.Time-24*3600*1000
		}
		return outcome{notice: told}
	}
	p.seen, p.closed, p.failing = max(p.seen, ev.Time), false, 0
	if ev.Time < p.banned {
		told := !p.banTold
		p.banTold = true
		return outcome{notice: told}
	}
	if ev.Kind == message.KindPostback {
		if p.room == 0 {
			m.enter(ev.User, p.lastPublic, p.lastCode)
		}
		return outcome{notice: true}
	}
	if word, arg, _ := strings.Cut(ev.Text, " "); strings.HasPrefix(word, "/") {
		m.command(ev, p, word, arg)
		return outcome{notice: true}
	}
	joined := p.room == 0
	if joined {
		m.enter(ev.User, p.lastPublic, p.lastCode)
	}
	out := outcome{notice: joined, copies: map[string]string{}}
	for _, other := range m.rooms[p.room].members {
		o := m.people[other]
		_, one := o.blocked[ev.User]
		_, two := p.blocked[other]
		if other != ev.User && !one && !two && !o.closed && o.seen > ev.Time-24*3600*1000 && o.muted <= ev.Time && o.failing <= ev.Time {
			out.copies[other] = p.nameHere + ": " + ev.Text
		}
	}
	return out
}

func (m *model) command(ev message.Event, p *modelPerson, word, arg string) {
	switch word {
	case "/leave":
		m.leave(ev.User)
	case "/name":
		for _, other := range m.others(ev.User) {
			if strings.EqualFold(m.people[other].nameHere, arg) {
				return
			}
		}
		p.name, p.nameHere = arg, arg
	case "/block":
		for _, other := range m.others(ev.User) {
			if strings.EqualFold(m.people[other].nameHere, arg) {
				p.blocked[other] = m.people[other].nameHere
			}
		}
	case "/unblock":
		for other, name := range p.blocked {
			here := p.room != 0 && m.people[other].room == p.room && strings.EqualFold(m.people[other].nameHere, arg)
			if strings.EqualFold(name, arg) || here {
				delete(p.blocked, other)
			}
		}
	case "/mute":
		p.muted = 0
		if arg != "off" {
			d, _ := time.ParseDuration(arg)
			p.muted = ev.Time + d.Milliseconds()
		}
	case "/join":
		m.join(ev.User, p, arg)
	}
}

func (m *model) join(user string, p *modelPerson, arg string) {
	var number int
	if n, _ := fmt.Sscanf(arg, "%d", &number); n == 0 { // a code
		if p.room == 0 || m.rooms[p.room].code != arg {
			m.enter(user, 0, arg)
		}
		return
	}
	if r := m.rooms[number]; r != nil && r.code == "" && p.room != number {
		m.enter(user, number, "")
	}
}

// others returns the other members of the user's room.
func (m *model) others(user string) []string {
	p := m.people[user]
	if p.room == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.rooms[p.room].members), func(s string) bool { return s == user })
}

// enter puts the user into the first room of that code with a free place, counted
// from that number and then from the lowest. If all are full, it opens a new one.
func (m *model) enter(user string, from int, code string) {
	p := m.people[user]
	if p.name == "" {
		m.guests++
		p.name = fmt.Sprintf("Guest %d", m.guests)
	}
	best := 0
	for number := 1; number <= m.lastRoom; number++ {
		r := m.rooms[number]
		if r != nil && r.code == code && len(r.members) < m.capacity && (best == 0 || best < from && number >= from) {
			best = number
		}
	}
	if best == 0 {
		m.lastRoom++
		best = m.lastRoom
		m.rooms[best] = &modelRoom{code: code}
	}
	if best == p.room {
		return
	}
	m.leave(user)
	r := m.rooms[best]
	p.nameHere = p.name
	for n := 2; slices.ContainsFunc(r.members, func(o string) bool { return strings.EqualFold(m.people[o].nameHere, p.nameHere) }); n++ {
		p.nameHere = fmt.Sprintf("%s %d", p.name, n)
	}
	r.members = append(r.members, user)
	p.room, p.lastPublic, p.lastCode = best, best, code
	if code != "" {
		p.lastPublic = 0
	}
}

func (m *model) leave(user string) {
	p := m.people[user]
	if p.room == 0 {
		return
	}
	r := m.rooms[p.room]
	r.members = m.others(user)
	if len(r.members) == 0 && r.code != "" {
		delete(m.rooms, p.room)
	}
	p.room = 0
}

// ban bans a user for good, from that time on.
func (m *model) ban(user string) bool {
	p := m.people[user]
	if p == nil {
		return false
	}
	m.leave(user)
	p.banned, p.banTold = 1<<62, false
	return true
}
