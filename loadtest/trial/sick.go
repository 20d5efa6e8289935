package trial

import (
	"context"
	"errors"
	"slices"
)

// fits reports what of the plan an entry cannot do.
func (p Plan) fits(via string) error {
	if via == ViaOutbound {
		return nil
	}
	for _, s := range p.Streams {
		if s.Audio || s.Sickness != nil {
			return errors.New("via webhook: a plan with audio, or with sick pages or people, needs the entry outbound")
		}
	}
	return nil
}

// sicken has the platform answer as the plan's sicknesses say.
func (t *trial) sicken(ctx context.Context) error {
	var list []map[string]any
	for i, s := range t.Plan.Streams {
		if s.Sickness == nil {
			continue
		}
		d := newSampler(s, t.Plan.Room, t.id, 0, uint64(i)) // it draws nothing
		for _, p := range s.Pages {
			people := []string{""} // any
			for n := range s.Sickness.People {
				people = append(people[:n], d.user(p.ID, n))
			}
			for _, to := range people {
				list = append(list, map[string]any{
					"code": s.Sickness.Code, "hang": s.Sickness.Hang.String(), "page": p.ID, "recipient": to,
				})
			}
		}
	}
	if list == nil {
		return nil
	}
	return t.judge.Control(ctx, map[string]any{"inject": list})
}

// isSick reports whether a copy for someone cannot be sent.
func (d *sampler) isSick(page, to string) bool {
	s := d.stream.Sickness
	if s == nil {
		return false
	}
	for n := range s.People {
		if d.user(page, n) == to {
			return true
		}
	}
	return s.People == 0
}

// hotAudio reports whether the hot pages are judged by the limit of media.
func (p Plan) hotAudio() bool {
	return slices.ContainsFunc(p.Streams, func(s Stream) bool { return s.Group == Hot && s.Audio })
}

// hotLimit is that of the calls that the hot pages are judged by.
func (p Plan) hotLimit() float64 {
	if p.hotAudio() {
		return p.Media
	}
	return p.Limit
}
