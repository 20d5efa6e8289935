package excess

// Probe tells whether the call is its page's lone probe: after two refusals in
// a row an owner sends nothing else until its result is known.
func (p Pass) Probe() bool { return p.ticket.probe }
