// Command dispatcher takes outbound messages off the queue and sends them
// through the Send API within the limits of each page. Run as many replicas as
// the load needs: they share nothing but the queues. `dispatcher -h` lists the
// settings.
package main

import (
	"context"
	"os"

	"chatclub/internal/app"
)

func main() {
	os.Exit(app.Main(func(ctx context.Context, s app.DispatcherSettings) (*app.Program, error) {
		return app.NewDispatcher(ctx, app.DispatcherConfig{Settings: s})
	}))
}
