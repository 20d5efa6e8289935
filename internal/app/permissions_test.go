package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"chatclub/internal/queue"
	"chatclub/internal/queue/rabbit"
	"chatclub/internal/queue/rabbit/rabbittest"
	"chatclub/internal/sender"
	"chatclub/tools/program"
)

// composeUser is RabbitMQ's user in a compose file.
type composeUser struct {
	Users []struct {
		Name string
		Tags []string
	}
	Permissions []struct{ User, Vhost, Configure, Write, Read string }
}

// TestComposeUserSuffices: all programs work with the permissions that compose's user of
// RabbitMQ has, which are those of docs/operate.md, and it has no more.
func TestComposeUserSuffices(t *testing.T) {
	t.Parallel()
	var user composeUser
	for _, file := range composeFiles {
		content := strings.ReplaceAll(expand(readCompose(t, file).Configs["rabbitmq-user"].Content), "$$", "$")
		user = composeUser{}
		if err := json.Unmarshal([]byte(content), &user); err != nil {
			t.Fatal(err)
		}
		if len(user.Users) != 1 || len(user.Permissions) != 1 || strings.Join(user.Users[0].Tags, "") != "management" {
			t.Fatalf("%s has the users %+v, want one with the tag management", file, user)
		}
		p := user.Permissions[0]
		if told := "'" + p.Configure + "' '" + p.Write + "' '" + p.Read + "'"; !strings.Contains(document(t, "docs/operate.md"), told) {
			t.Errorf("%s has the permissions %s, which docs/operate.md does not have", file, told)
		}
	}
	server := rabbittest.Start(t)
	p := user.Permissions[0]
	server.Ctl("add_user", p.User, "given")
	server.Ctl("set_permissions", "-p", "/", p.User, p.Configure, p.Write, p.Read)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(p.User, "given")
	amqpURL := address.String()
	opt := Options{Log: slog.New(slog.DiscardHandler)}
	w, err := NewWebhook(t.Context(), WebhookConfig{Settings: load[WebhookSettings](t, "AMQP_URL", amqpURL, "APP_SECRET", "s", "VERIFY_TOKEN", "v"), Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCore(t.Context(), CoreConfig{Settings: load[CoreSettings](t, "AMQP_URL", amqpURL, "DATABASE_URL", "sqlite:"+t.TempDir()+"/core.db"), Options: opt})
	if err != nil {
		t.Fatal(err)
	}
	d, err := NewDispatcher(t.Context(), DispatcherConfig{
		Settings: load[DispatcherSettings](t, "AMQP_URL", amqpURL, "PAGES_FILE", "given"), Options: opt,
		Tokens: sender.StaticTokens(map[string]string{"1": "t"}), Transport: graph{"9": "100"},
	})
	if err != nil {
		t.Fatal(err)
	}
	all := []*Program{w, c, d}
	for _, one := range all {
		run(t, one)
	}
	program.Eventually(t, "all programs are ready", func() error {
		for _, one := range all {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			err := one.Ready(ctx)
			cancel()
			if err != nil {
				return err
			}
		}
		return nil
	})
	admin := "http://" + d.AdminAddr()
	for _, row := range []struct {
		path, body string
		want       int
	}{
		{"/messages", `[{"page":"1","to":"7","text":"hi"},{"page":"1","to":"9","text":"refused"}]`, http.StatusAccepted},
		{"/pages/1/pause", `{"for":"1s"}`, http.StatusNoContent},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, admin+row.path, strings.NewReader(row.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != row.want {
			t.Errorf("POST %s = %d, want %d", row.path, res.StatusCode, row.want)
		}
	}
	looker, err := rabbit.Open(rabbit.Config{URLs: []string{amqpURL}, Topology: queue.Topology{Prefix: "chatclub", Partitions: 2}, Passive: true})
	if err != nil {
		t.Fatal(err)
	}
	defer looker.Close()
	program.Eventually(t, "what is refused is on the dead-letter queue", func() error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		info, err := looker.Inspect(ctx, looker.Topology().Dead())
		if err == nil && info.Ready != 1 {
			err = fmt.Errorf("%d letters", info.Ready)
		}
		return err
	})
}
