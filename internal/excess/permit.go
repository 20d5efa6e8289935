package excess

// Probe reports whether the call is its page's lone probe. After two refusals in
// a row an owner sends nothing else until the probe's result is known.
func (p Permit) Probe() bool { return p.probe }
