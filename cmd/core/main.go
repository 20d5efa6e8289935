// Command core takes events off the inbound partitions and keeps users and rooms in a
// SQL database. It puts copies of each message on the outbound queue, one for
// every other member of the room. Run any number on one PostgreSQL; on SQLite one.
// `core -h` lists the settings.
package main

import (
	"context"
	"os"

	"chatclub/internal/app"
)

func main() {
	os.Exit(app.Main(func(ctx context.Context, s app.CoreSettings) (*app.Program, error) {
		return app.NewCore(ctx, app.CoreConfig{Settings: s})
	}))
}
