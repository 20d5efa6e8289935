package ledger

// Settled returns how many ids are remembered that were accepted or excused.
func Settled(l *Ledger) int {
	n := 0
	for i := range l.shards {
		for _, p := range l.shards[i].finished.parts {
			n += len(p.accepted) + len(p.excused)
		}
	}
	return n
}
