package replicas

import (
	"fmt"
	"strings"
)

// Trouble says in sentences what is wrong with RabbitMQ and the programs, the cause before what
// follows from it; "" if nothing is. broker nil: it was not asked.
func Trouble(programs []Health, broker *BrokerHealth) string {
	var sentences []string
	say := func(format string, args ...any) { sentences = append(sentences, fmt.Sprintf(format, args...)) }
	if broker != nil && broker.Error != "" {
		say("RabbitMQ takes no messages: %s.", broker.Error)
	}
	for _, kind := range []string{"webhook", "core", "dispatcher"} {
		all, bad, worst := 0, 0, Health{}
		for _, h := range programs {
			if h.Program != kind {
				continue
			}
			all++
			follows := broker != nil && broker.Error != "" && h.Answers // it says so of RabbitMQ, too
			if h.Says == "" || follows {
				continue
			}
			if bad++; worst.Says == "" || worst.Answers && !h.Answers {
				worst = h
			}
		}
		switch {
		case bad == 0:
		case all == 1:
			say("%s %s", strings.ToUpper(kind[:1])+kind[1:], worst.said())
		case bad == all:
			say("None of %d %ss is ready: %s %s", all, kind, worst.Name, worst.said())
		default:
			say("%d of %d %ss: %s %s", bad, all, kind, worst.Name, worst.said())
		}
	}
	if broker == nil {
		return strings.Join(sentences, " ")
	}
	if n := len(broker.Idle); n > 0 {
		say("%d messages on %s have no consumer%s.", broker.Idle[0].Ready, broker.Idle[0].Queue, andMore(n-1, "queue"))
	}
	if len(broker.Beyond) > 0 {
		say("There is %s: a program has more PARTITIONS.", broker.Beyond[0].Queue)
	}
	return strings.Join(sentences, " ")
}

// said is what a program says, as the end of a sentence after its name.
func (h Health) said() string {
	if h.Answers {
		return "is not ready: " + h.Says + "."
	}
	return "does not answer."
}

func andMore(n int, what string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", nor has 1 more " + what
	}
	return fmt.Sprintf(", nor have %d more %ss", n, what)
}
