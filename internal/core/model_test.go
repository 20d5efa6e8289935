package core

import (
	"cmp"
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
	now         func() int64 // the clock of the cores
	people      map[string]*modelPerson
	rooms       map[int]*modelRoom
	guests      int
	lastRoom    int // the highest number given to a public room
	lastCode    int // the same of rooms by code, without modelCodes
	past        map[int]map[string]pastName
	pausedUntil int64
	pausedAt    int64 // the youngest cause
	resumedAt   int64
}

// modelCodes is added to the numbers 1, 2, 3 of rooms by code.
const modelCodes = 1_000_000_000

// pastName is a name that a user gave up in a room, and the time until which it is kept.
type pastName struct {
	user, name string
	until      int64
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
	leftAt         int64
	leftRoom       int
	leftUntil      int64
}

type modelRoom struct {
	code    string
	members []string
}

// outcome is the expected outcome of an event.
type outcome struct {
	notice bool              // its user gets an answer
	copies map[string]string // PSID to text
	second map[string]string // the same, behind the line of another name
}

func newModel(capacity int, idle time.Duration, now func() int64) *model {
	return &model{
		capacity: capacity, idle: idle, now: now,
		people: map[string]*modelPerson{}, rooms: map[int]*modelRoom{}, past: map[int]map[string]pastName{},
	}
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
	case message.FeedbackResumed:
		if p != nil {
			p.failing = 0
		}
	default:
		if p != nil && p.seen <= ev.Time {
			p.closed = true
		}
	}
}

func (m *model) event(ev message.Event) outcome {
	p := m.people[ev.User]
	if p == nil && ev.Kind == message.KindIdle {
		return outcome{} // it makes no user
	}
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
	word, arg, _ := strings.Cut(ev.Text, " ")
	if ev.Time < p.leftAt && (ev.Kind == message.KindPostback || word == "/join" || !strings.HasPrefix(word, "/")) {
		return outcome{}
	}
	was := "" // the name under which a room that it comes into knew it
	enter := func() {
		if p.room == 0 {
			was = m.enter(ev.User, p.lastPublic, p.lastCode)
		}
	}
	out := outcome{notice: true}
	switch {
	case ev.Kind == message.KindPostback:
		enter()
	case strings.HasPrefix(word, "/"):
		was = m.command(ev, p, word, arg)
	default:
		out.notice = p.room == 0
		enter()
		out.copies = m.hear(ev, p.nameHere+": "+ev.Text)
	}
	if was != "" {
		out.copies, out.second = m.hear(ev, "↻ "+was+" → "+p.nameHere), out.copies
	}
	return out
}

// hear returns the others in the user's room who get its text.
func (m *model) hear(ev message.Event, text string) map[string]string {
	p, copies := m.people[ev.User], map[string]string{}
	for _, other := range m.rooms[p.room].members {
		o := m.people[other]
		_, one := o.blocked[ev.User]
		_, two := p.blocked[other]
		if other != ev.User && !one && !two && !o.closed && o.seen > ev.Time-24*3600*1000 && o.muted <= ev.Time && o.failing <= ev.Time {
			copies[other] = text
		}
	}
	return copies
}

const modelDay = 24 * 3600 * 1000

// giveUp keeps the user's name in its room for it.
func (m *model) giveUp(user string) {
	p := m.people[user]
	if m.past[p.room] == nil {
		m.past[p.room] = map[string]pastName{}
	}
	m.past[p.room][strings.ToLower(p.nameHere)] = pastName{user, p.nameHere, m.now() + modelDay}
}

// owned returns the names that the user gave up in a room, the last one first.
func (m *model) owned(user string, room int) (list []pastName) {
	for _, past := range m.past[room] {
		if past.user == user && past.until > m.now() {
			list = append(list, past)
		}
	}
	slices.SortFunc(list, func(a, b pastName) int { return cmp.Compare(b.until, a.until) })
	return list
}

// isTaken reports whether another has the name in a room, or gave it up.
func (m *model) isTaken(user string, room int, name string) bool {
	past, ok := m.past[room][strings.ToLower(name)]
	return ok && past.user != user && past.until > m.now() ||
		slices.ContainsFunc(m.rooms[room].members, func(o string) bool {
			return o != user && strings.EqualFold(m.people[o].nameHere, name)
		})
}

// rename returns the name before, if the room hears of another.
func (m *model) rename(user, name string) (was string) {
	p := m.people[user]
	owned := []pastName{{name: p.name}}
	now := ""
	if p.room != 0 {
		owned, now = m.owned(user, p.room), p.nameHere
	}
	mine := slices.ContainsFunc(owned, func(past pastName) bool { return strings.EqualFold(past.name, name) })
	switch {
	case strings.HasPrefix(strings.ToLower(name), "guest ") && !mine && !strings.EqualFold(now, name),
		p.room != 0 && m.isTaken(user, p.room, name),
		name != now && !mine && len(owned) >= 5:
		return ""
	}
	p.name = name
	if p.room == 0 || name == now {
		return ""
	}
	m.giveUp(user)
	p.nameHere = name
	return now
}

// called returns whom the user means by a name.
func (m *model) called(user, name string) string {
	p := m.people[user]
	list := []int{p.room}
	if p.leftUntil > m.now() {
		list = append(list, p.leftRoom)
	}
	for _, room := range list {
		if r := m.rooms[room]; r != nil {
			for _, other := range r.members {
				if strings.EqualFold(m.people[other].nameHere, name) {
					return other
				}
			}
		}
		if past, ok := m.past[room][strings.ToLower(name)]; ok && past.until > m.now() {
			return past.user
		}
	}
	return ""
}

// command returns the name under which the user's room knew it, if that hears of
// another.
func (m *model) command(ev message.Event, p *modelPerson, word, arg string) (was string) {
	switch word {
	case "/leave":
		p.leftAt = max(p.leftAt, ev.Time)
		m.leave(ev.User)
	case "/name":
		return m.rename(ev.User, arg)
	case "/block":
		if other := m.called(ev.User, arg); other != "" && other != ev.User {
			p.blocked[other] = arg
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
		return m.join(ev.User, p, arg)
	}
	return ""
}

func (m *model) join(user string, p *modelPerson, arg string) (was string) {
	var number int
	if n, _ := fmt.Sscanf(arg, "%d", &number); n == 0 { // a code
		if p.room == 0 || m.rooms[p.room].code != arg {
			return m.enter(user, 0, arg)
		}
		return ""
	}
	if r := m.rooms[number]; r != nil && r.code == "" && p.room != number {
		return m.enter(user, number, "")
	}
	return ""
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
// It returns the name under which that room knew the user, if it was another.
func (m *model) enter(user string, from int, code string) (was string) {
	p := m.people[user]
	if p.name == "" {
		m.guests++
		p.name = fmt.Sprintf("Guest %d", m.guests)
	}
	best, first, last := 0, 1, &m.lastRoom
	if code != "" {
		first, last = modelCodes+1, &m.lastCode
	}
	for number := first; number < first+*last; number++ {
		r := m.rooms[number]
		if r != nil && r.code == code && len(r.members) < m.capacity && (best == 0 || best < from && number >= from) {
			best = number
		}
	}
	if best == 0 {
		best = first + *last
		*last++
		m.rooms[best] = &modelRoom{code: code}
	}
	if best == p.room {
		return ""
	}
	m.leave(user)
	r := m.rooms[best]
	owned := m.owned(user, best)
	name := p.name
	if len(owned) >= 5 && !slices.ContainsFunc(owned, func(past pastName) bool { return strings.EqualFold(past.name, name) }) {
		name = owned[0].name
	}
	p.nameHere = name
	for n := 2; m.isTaken(user, best, p.nameHere); n++ {
		p.nameHere = fmt.Sprintf("%s %d", name, n)
	}
	if len(owned) > 0 && owned[0].name != p.nameHere {
		was = owned[0].name
	}
	r.members = append(r.members, user)
	p.room, p.lastPublic, p.lastCode = best, best, code
	if code != "" {
		p.lastPublic = 0
	}
	return was
}

func (m *model) leave(user string) {
	p := m.people[user]
	if p.room == 0 {
		return
	}
	r := m.rooms[p.room]
	m.giveUp(user)
	p.leftRoom, p.leftUntil = p.room, m.now()+modelDay
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
