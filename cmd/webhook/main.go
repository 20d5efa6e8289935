// Command webhook receives Messenger's events at /webhook, checks their
// signature and puts them on the inbound partitions. It keeps nothing: run any
// number behind a load balancer. `webhook -h` lists the settings.
package main

import (
	"context"
	"os"

	"chatclub/internal/app"
)

func main() {
	os.Exit(app.Main(func(ctx context.Context, s app.WebhookSettings) (*app.Program, error) {
		return app.NewWebhook(ctx, app.WebhookConfig{Settings: s})
	}))
}
