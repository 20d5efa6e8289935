// An echo bot on the queues: webhook publishes Messenger's events, a dispatcher sends.
// AMQP_URL=amqp://127.0.0.1 QUEUE_PREFIX=chatclub PARTITIONS=64 go run ./examples/go
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	connection := must(amqp.Dial(os.Getenv("AMQP_URL")))
	for n := range must(strconv.Atoi(os.Getenv("PARTITIONS"))) { // RabbitMQ delivers each to one bot at a time, in order
		channel := must(connection.Channel())
		must(0, errors.Join(channel.Confirm(false), channel.Qos(100, 0, false)))
		go echo(channel, must(channel.Consume(fmt.Sprintf("%s.inbound.%02d", os.Getenv("QUEUE_PREFIX"), n), "", false, false, false, false, nil)))
	}
	panic(<-connection.NotifyClose(make(chan *amqp.Error, 1)))
}

func echo(channel *amqp.Channel, events <-chan amqp.Delivery) {
	returned := channel.NotifyReturn(make(chan amqp.Return, 1))
	for event := range events {
		e := map[string]any{}
		if must(0, json.Unmarshal(event.Body, &e)); e["kind"] == "message" && e["text"] != nil {
			id := fmt.Sprintf("%s/%s/%s", e["page"], e["id"], e["user"]) // the same for an event that comes again
			e = map[string]any{"id": id, "page": e["page"], "to": e["user"], "time": e["time"], "text": e["text"]}
			message := amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent, Body: must(json.Marshal(e))}
			sent := must(channel.PublishWithDeferredConfirm("", os.Getenv("QUEUE_PREFIX")+".outbound", true, false, message))
			if !sent.Wait() || len(returned) > 0 {
				panic("not taken: " + id)
			}
		}
		must(0, event.Ack(false)) // after its effect
	}
}

func must[T any](v T, err error) T {
	if err != nil { // started again, it is given the event again
		panic(err)
	}
	return v
}
