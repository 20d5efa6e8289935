package deployment

import (
	"bytes"
	"fmt"
	"os"

	"chatclub/fakeapi/ledger"
)

// balanceStart is how the platform's last line begins: ledger.Counts.Line.
const balanceStart = "events "

// lastBalance returns the last line of that kind that the program printed; "" if
// there is none.
func (p *program) lastBalance() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	last := ""
	for line := range bytes.Lines(b) {
		if bytes.HasPrefix(line, []byte(balanceStart)) {
			last = string(bytes.TrimSpace(line))
		}
	}
	return last
}

// parseBalance lays the platform's last line over what it said before.
func parseBalance(c ledger.Counts, line string) (ledger.Counts, error) {
	var pending string
	_, err := fmt.Sscanf(line, "events %d expected %d accepted %d refused %d %s %d duplicated %d unexpected %d without id %d excused %d",
		&c.Events, &c.Expected, &c.Accepted, &c.Refused, &pending, &c.Pending, &c.Duplicated, &c.Unexpected, &c.Unidentified, &c.Excused)
	if err != nil {
		return c, fmt.Errorf("the platform ended without a balance: %.100q: %w", line, err)
	}
	c.Lost = c.Pending
	return c, nil
}
