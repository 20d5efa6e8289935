package strategy

import (
	"time"

	"chatclub/internal/excess"
)

// laneless is the part of a gate that has to do with lanes, and with replicas
// that are counted while they run. It is for gates that know of neither.
type laneless struct{}

// InExcess returns false: there is no lane to send a page's messages to.
func (laneless) InExcess(excess.Key) bool { return false }

// SetReplicas has no meaning here.
func (laneless) SetReplicas(int) {}

// Join has no meaning here.
func (laneless) Join(time.Time) {}

// TakeDue has no meaning here.
func (laneless) TakeDue(time.Time) []excess.Key { return nil }

// SetLaneDepth has no meaning here.
func (laneless) SetLaneDepth(time.Time, excess.Key, int) {}
