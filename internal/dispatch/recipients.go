package dispatch

// recipient is the person whom an item is for. The same person has another PSID
// on every page.
type recipient struct{ page, to string }

// recipientOrder keeps at most one item per recipient on its way, and the others
// in order behind it. So a later message never overtakes an earlier one. A
// recipient without items costs nothing. The zero value is not useful. Not safe
// for concurrent use.
type recipientOrder struct {
	wait map[recipient][]*item // an entry exists while one item is on its way
}

func newRecipientOrder() *recipientOrder { return &recipientOrder{wait: make(map[recipient][]*item)} }

// join puts m behind the others to its recipient, and reports whether it is first.
func (o *recipientOrder) join(m *item) bool {
	r := recipient{m.out.Page, m.out.To}
	waiting, busy := o.wait[r]
	if !busy {
		o.wait[r] = nil
		return true
	}
	o.wait[r] = append(waiting, m)
	return false
}

// next takes m out and returns the item behind it, nil when there is none.
func (o *recipientOrder) next(m *item) *item {
	r := recipient{m.out.Page, m.out.To}
	waiting := o.wait[r]
	if len(waiting) == 0 {
		delete(o.wait, r)
		return nil
	}
	next := waiting[0]
	waiting[0] = nil
	o.wait[r] = waiting[1:]
	return next
}
