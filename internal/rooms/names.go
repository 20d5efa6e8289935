package rooms

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"chatclub/internal/plaintext"
)

const (
	// nameKept is the time for which a name that a member gave up stays with it: no
	// other gets it meanwhile, and it stands for that member in blocks and reports. In
	// the same time a user has scrolled past the texts.
	nameKept = 24 * time.Hour
	// maxNames is the number of names that a member may give up in a room in that time.
	// Each is kept from all others.
	maxNames = 5
	// nameEvery is the time after giving up a name in a room before a member may take
	// another there, if there is a FloodLimit. All others read of each.
	nameEvery = time.Minute
	// maxCandidates is the number of a joining user's names, "Ana" and "Ana 2" and so
	// on, that are compared with names that were given up. Behind them only those of
	// members count.
	maxCandidates = 16
)

// keepName returns the statements that keep the member's name for it, which it
// gives up.
func (u *user) keepName(in membership, now time.Time) []query {
	var writes []query
	for _, skeleton := range plaintext.Skeletons(in.name) {
		writes = append(writes, query{
			sql: `
			INSERT INTO past_names (page, room, skeleton, psid, name, until) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (page, room, skeleton) DO UPDATE SET psid = excluded.psid, name = excluded.name, until = excluded.until`,
			args: []any{u.page, int64(in.Number), skeleton, u.psid, in.name, now.Add(nameKept).UnixMilli()},
		})
	}
	return writes
}

// roomNames holds the names that a new one in a room is checked against.
type roomNames struct {
	members int             // others in the room
	taken   map[string]bool // skeletons and folded forms of names that others have or had
	own     []pastName      // those that the user gave up in the room, the last one first
	every   time.Duration   // between two names of the user there
}

type pastName struct {
	name  string
	until int64
}

// loadNames reads the names of a room, without the user's. Of those that were given
// up it reads those that look like one of the candidates.
func (e *eventTx) loadNames(n *roomNames, room int, candidates []string) []query {
	n.taken = map[string]bool{}
	if e.s.cfg.FloodLimit > 0 {
		n.every = nameEvery
	}
	now := e.s.cfg.Now().UnixMilli()
	args := []any{e.ev.Page, int64(room), e.ev.User, now}
	for _, c := range candidates {
		args = append(args, forms(c)...)
	}
	return []query{
		{
			sql:  `SELECT name FROM members WHERE page = $1 AND room = $2 AND psid <> $3`,
			args: args[:3],
			scan: func(r row) error {
				var name string
				err := r.Scan(&name)
				n.members++
				n.taken[plaintext.Fold(name)] = true
				for _, s := range plaintext.Skeletons(name) {
					n.taken[s] = true
				}
				return err
			},
		},
		{
			sql: `
			SELECT skeleton FROM past_names
			WHERE page = $1 AND room = $2 AND psid <> $3 AND until > $4 AND skeleton IN ` + places(5, len(args)-4),
			args: args,
			scan: func(r row) error {
				var skeleton string
				err := r.Scan(&skeleton)
				n.taken[skeleton] = true
				return err
			},
		},
		{
			sql: `
			SELECT name, MAX(until) FROM past_names WHERE page = $1 AND psid = $3 AND room = $2 AND until > $4
			GROUP BY name ORDER BY MAX(until) DESC`,
			args: args[:4],
			scan: func(r row) error {
				var p pastName
				err := r.Scan(&p.name, &p.until)
				if !n.gaveUp(p.name) { // else in another case
					n.own = append(n.own, p)
				}
				return err
			},
		},
	}
}

// places returns a list of n parameters from $first on, in brackets.
func places(first, n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = "$" + strconv.Itoa(first+i)
	}
	return "(" + strings.Join(list, ", ") + ")"
}

// forms returns the skeletons of a name, some more than once, so that statements
// about names always have the same number of parameters.
func forms(name string) []any {
	skeletons := plaintext.Skeletons(name)
	list := make([]any, plaintext.MaxSkeletons)
	for i := range list {
		list[i] = skeletons[min(i, len(skeletons)-1)]
	}
	return list
}

// isTaken reports whether another has a name that looks like this one, or gave it
// up not long ago.
func (n *roomNames) isTaken(name string) bool {
	return n.taken[plaintext.Fold(name)] ||
		slices.ContainsFunc(plaintext.Skeletons(name), func(s string) bool { return n.taken[s] })
}

// mayTake returns when the user may take the name and give up that of now: a time that
// has passed, unless it gave up one just now, or many of which this one is none.
func (n *roomNames) mayTake(name string) (at int64) {
	if len(n.own) == 0 {
		return 0
	}
	if n.every > 0 {
		at = n.own[0].until - (nameKept - n.every).Milliseconds()
	}
	if len(n.own) >= maxNames && !n.gaveUp(name) {
		at = max(at, n.own[len(n.own)-1].until)
	}
	return at
}

func (n *roomNames) gaveUp(name string) bool {
	return slices.ContainsFunc(n.own, func(p pastName) bool { return plaintext.Fold(p.name) == plaintext.Fold(name) })
}

// free returns the user's name for a room that it joins at that time: the wanted name, or
// the last one there if it may have no other. A number is behind it if it is
// taken.
func (n *roomNames) free(name string, now int64) string {
	if n.mayTake(name) > now {
		name = n.own[0].name
	}
	candidate := name
	for i := 2; n.isTaken(candidate); i++ {
		candidate = numbered(name, i)
	}
	return candidate
}

// candidates returns the first names that free may return.
func candidates(name string) []string {
	list := []string{name}
	for len(list) < maxCandidates {
		list = append(list, numbered(name, len(list)+1))
	}
	return list
}

// numbered returns the name with a number behind it, shortened to fit.
func numbered(name string, n int) string {
	suffix := " " + strconv.Itoa(n)
	runes := []rune(name)
	runes = runes[:min(len(runes), plaintext.MaxName-len(suffix))]
	return strings.TrimSpace(string(runes)) + suffix
}
