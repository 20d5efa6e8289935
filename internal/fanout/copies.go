package fanout

import (
	"fmt"
	"strconv"

	"chatclub/internal/message"
	"chatclub/internal/rooms"
)

// Copies returns the messages that ev makes, where res is what rooms made of
// it: the sender's welcome or answer first, then the copies.
func Copies(ev message.Event, res rooms.Result) []message.Outbound {
	var out []message.Outbound
	if text := notice(ev, res); text != "" {
		out = Notice(ev, ev.User, text)
	}
	said, _ := Say(ev, res.Name, ev.Text)
	return append(out, said.Copies(ev, res.Others)...)
}

// notice is what the sender itself is told: a welcome when the event brought
// it into its room, otherwise where it is when it pressed a button.
func notice(ev message.Event, res rooms.Result) string {
	switch {
	case res.Joined && len(res.Others) == 0:
		return fmt.Sprintf("Welcome to room %d, %s! You are the first one here. Everything you write goes to everybody here.", res.Room, res.Name)
	case res.Joined:
		return fmt.Sprintf("Welcome to room %d, %s! You are with %s. Everything you write goes to everybody here.", res.Room, res.Name, others(len(res.Others)))
	case ev.Kind == message.KindPostback:
		return fmt.Sprintf("You are in room %d with %s.", res.Room, others(len(res.Others)))
	default:
		return ""
	}
}

func others(n int) string {
	if n == 1 {
		return "1 other"
	}
	return strconv.Itoa(n) + " others"
}
