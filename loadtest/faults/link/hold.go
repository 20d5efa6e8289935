package link

import "github.com/Shopify/toxiproxy/v2/toxics"

// holdToxic is the name by which toxiproxy knows hold.
const holdToxic = "hold"

// hold is a toxic that passes nothing on, not even that a side has closed its
// connection: so does a network that has lost its way. toxiproxy's own timeout
// passes the end on, by which the other side learns at once what it could not know.
type hold struct{}

// Pipe implements toxics.Toxic.
func (*hold) Pipe(stub *toxics.ToxicStub) {
	input := stub.Input
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-input:
			if chunk == nil { // the end; it is kept back until the toxic is removed
				input = nil
			}
		}
	}
}

// Cleanup implements toxics.CleanupToxic: what was lost is lost, so the connection
// is useless.
func (*hold) Cleanup(stub *toxics.ToxicStub) { stub.Close() }
