package app

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"chatclub/internal/broadcast"
	"chatclub/internal/core"
	"chatclub/internal/message"
	"chatclub/internal/metric"
	"chatclub/internal/operator"
	"chatclub/internal/orders"
	"chatclub/internal/partitions"
	"chatclub/internal/phrase"
	"chatclub/internal/rooms"
	"chatclub/internal/service"
)

// otherConns are the database connections beside one per worker: for broadcasts,
// which use five at most, and for pruning, counting, the silent, operators and the
// readiness check. They seldom need as many at once, and then wait.
const otherConns = 8

// CoreSettings are those of cmd/core.
type CoreSettings struct {
	DatabaseURL     service.Secret `env:"DATABASE_URL" envDefault:"sqlite:chatclub.db" doc:"Where users and rooms are: sqlite:FILE for one core, postgres://user:password@host/database for several."`
	RoomCapacity    int            `env:"ROOM_CAPACITY" envDefault:"100" doc:"Members of a room at most, 2 to 100; the next room opens when all are full."`
	RoomIdle        time.Duration  `env:"ROOM_IDLE" envDefault:"20h" doc:"How long a member may be silent before it leaves its room, with a notice if Messenger's 24 h are not over; 0s: for ever."`
	FloodLimit      int            `env:"FLOOD_LIMIT" envDefault:"30" doc:"Messages and commands of one user that have an effect in FLOOD_PERIOD; 0: all."`
	FloodPeriod     time.Duration  `env:"FLOOD_PERIOD" envDefault:"10s" doc:"See FLOOD_LIMIT and FLOOD_SHARE."`
	FreshWithin     time.Duration  `env:"FRESH_WITHIN" envDefault:"0s" doc:"While a page has more texts than it can send, core leaves out messages that would arrive later than this after they were written, for their whole room. The room is told how many. 0s: all are sent, however late. Dispatchers need FEEDBACK, and clocks must agree much better."`
	FloodShare      int            `env:"FLOOD_SHARE" envDefault:"10" doc:"Percent of its page's limits that the copies of one user may take while the page has more to send than takes 1.7 s, of audio and video 10 s. What it gets in FLOOD_PERIOD may go at once. 0: all, and no bound for one message."`
	Language        Language       `env:"LANGUAGE" envDefault:"en" doc:"Language of users of whom Messenger tells none, or a list of locales, of which the first known one counts."`
	Prefetch        int            `env:"PREFETCH" envDefault:"256" doc:"Events of one partition held at most, of two or three kilobytes each; the same in every core. Its pages take turns with them."`
	Workers         int            `env:"WORKERS" envDefault:"8" doc:"Events handled at a time; those of one page always one after another."`
	LimitText       int            `env:"LIMIT_TEXT" envDefault:"300" doc:"Calls per second that the platform takes for a page without a limit of its own: the highest rate of a broadcast. See FLOOD_SHARE."`
	LimitMedia      int            `env:"LIMIT_MEDIA" envDefault:"10" doc:"Audio and video calls per second that it takes for such a page. See FLOOD_SHARE."`
	PublishTimeout  time.Duration  `env:"PUBLISH_TIMEOUT" envDefault:"10s" doc:"How long core waits at a time for the broker to confirm an event's copies. Then it goes on waiting for those that are on their way, and publishes again only those whose connection has ended or that were refused. Broadcasts are published again."`
	TakeInbound     bool           `env:"TAKE_INBOUND" envDefault:"false" doc:"Take the events although a bot of your own consumes inbound, which gets none then. Otherwise core waits until it has ended."`
	MaxBacklog      int            `env:"MAX_BACKLOG" envDefault:"0" doc:"Messages that may be ready on a page's partition and lanes: with more POST /messages answers 429. 0: any number."`
	ShutdownTimeout time.Duration  `env:"SHUTDOWN_TIMEOUT" envDefault:"20s" doc:"How long events in hand may take when the program is stopped."`
	ProgramSettings
}

// About says what the program does.
func (CoreSettings) About() string {
	return "core puts writers into rooms and copies every message to the other members of its room."
}

// Validate names every fault.
func (s CoreSettings) Validate() error {
	return errors.Join(
		CheckDatabase("DATABASE_URL", s.DatabaseURL),
		service.CheckRange("ROOM_CAPACITY", s.RoomCapacity, 2, rooms.MaxCapacity),
		service.CheckDuration("ROOM_IDLE", s.RoomIdle, 0, MaxRoomIdle),
		service.CheckRange("FLOOD_LIMIT", s.FloodLimit, 0, MaxFlood),
		s.checkFresh(),
		service.CheckRange("FLOOD_SHARE", s.FloodShare, 0, 100),
		service.CheckDuration("FLOOD_PERIOD", s.FloodPeriod, time.Second, time.Hour),
		service.CheckRange("PREFETCH", s.Prefetch, 1, math.MaxUint16), // the protocol's field has 16 bits
		service.CheckRange("WORKERS", s.Workers, 1, 1024),
		service.CheckRange("LIMIT_TEXT", s.LimitText, 1, MaxLimit),
		service.CheckRange("LIMIT_MEDIA", s.LimitMedia, 1, MaxLimit),
		service.CheckDuration("PUBLISH_TIMEOUT", s.PublishTimeout, 10*time.Millisecond, time.Hour),
		service.CheckRange("MAX_BACKLOG", s.MaxBacklog, 0, math.MaxInt32),
		service.CheckDuration("SHUTDOWN_TIMEOUT", s.ShutdownTimeout, time.Millisecond, maxShutdown),
	)
}

// checkFresh wants a time in which a message can arrive: a call takes a second.
func (s CoreSettings) checkFresh() error {
	if s.FreshWithin != 0 && (s.FreshWithin < time.Second || s.FreshWithin > 24*time.Hour) {
		return service.Faultf("FRESH_WITHIN", "%s must be 0s, or 1s to 24h", s.FreshWithin)
	}
	return nil
}

// limits returns the limits of a page without its own.
func (s CoreSettings) limits() message.Limits {
	return message.Limits{Text: float64(s.LimitText), Media: float64(s.LimitMedia)}
}

// CheckDatabase wants an address that names a database of a kind that package
// rooms knows. rooms.Open reports the rest.
func CheckDatabase(name string, databaseURL service.Secret) error {
	scheme, rest, _ := strings.Cut(databaseURL.Reveal(), ":")
	switch scheme {
	case "sqlite", "postgres", "postgresql":
		if rest == "" || rest == "//" {
			return service.Faultf(name, "names no database")
		}
		return nil
	}
	return service.Faultf(name, "must begin with sqlite: or postgres://")
}

// Language is one of phrase.Languages.
type Language string

// UnmarshalText implements encoding.TextUnmarshaler. It takes the first language that
// users can have of a list of locales, such as "de_DE:pt_BR.UTF-8:en", and otherwise the
// default: many systems set LANGUAGE, for gettext.
func (l *Language) UnmarshalText(b []byte) error {
	*l = phrase.English
	for locale := range strings.SplitSeq(string(b), ":") {
		language, _, _ := strings.Cut(strings.ToLower(locale), ".") // before the encoding
		if i := strings.IndexAny(language, "_-@"); i >= 0 {
			language = language[:i]
		}
		if slices.Contains(phrase.Languages(), language) {
			*l = Language(language)
			break
		}
	}
	return nil
}

// Describe lists the languages.
func (Language) Describe() string {
	all := phrase.Languages()
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// CoreConfig is the configuration of NewCore.
type CoreConfig struct {
	Settings CoreSettings
	Options
}

// NewCore wires core. Its shutdown: no more events, those in hand are finished
// within SHUTDOWN_TIMEOUT and each partition is left as soon as its own are, the others
// go back in order, then the broker's
// connection is closed, then the admin server, then the database.
func NewCore(ctx context.Context, cfg CoreConfig) (_ *Program, err error) {
	s := cfg.Settings
	w, err := begin(ctx, "core", s.ProgramSettings, cfg.Options)
	if err != nil {
		return nil, err
	}
	defer w.undo(&err)
	service.LogStart(ctx, w.Log, s)
	store, err := rooms.Open(rooms.Config{
		DatabaseURL: s.DatabaseURL.Reveal(),
		Capacity:    s.RoomCapacity,
		MaxConns:    s.Workers + otherConns,
		Idle:        s.RoomIdle,
		FloodLimit:  s.FloodLimit,
		FloodPeriod: s.FloodPeriod,
		FloodShare:  s.FloodShare,
	})
	if err != nil {
		return nil, &service.SettingsError{Faults: []error{service.Named("DATABASE_URL", err)}}
	}
	w.onClose(store.Close)
	counter := new(rooms.Counter)
	book := w.book("core", s.LimitText, s.LimitMedia)
	scheduler, err := broadcast.New(broadcast.Config{
		Broker:          w.Broker,
		Store:           store.Broadcasts(),
		Paused:          book.IsPaused,
		Counter:         counter,
		PublishTimeout:  s.PublishTimeout,
		ShutdownTimeout: s.ShutdownTimeout,
		Registerer:      w.metrics,
		Log:             w.Log,
		Tracer:          w.trace,
	})
	if err != nil {
		return nil, err
	}
	limits := core.NewLimits(s.limits(), book.Limits)
	operators, err := operator.New(operator.Config{
		Store:     store,
		Scheduler: scheduler,
		Give:      func(ctx context.Context, o orders.Order) error { return orders.Give(ctx, w.Broker, o) },
		Orders:    book.Page,
		MaxRate:   func(page string) float64 { return limits.Of(page).Text },
		Log:       w.Log,
	})
	if err != nil {
		return nil, err
	}
	watch := partitions.NewWatch(w.Broker, w.Broker.Topology().Inbounds(), w.Log, metric.Set{Subsystem: "core", Registerer: w.metrics})
	c, err := core.New(core.Config{
		Broker:          w.Broker,
		Store:           store,
		Counter:         counter,
		Alongside:       scheduler.Run,
		Watch:           watch,
		Prefetch:        s.Prefetch,
		Workers:         s.Workers,
		PublishTimeout:  s.PublishTimeout,
		Idle:            s.RoomIdle,
		FreshWithin:     s.FreshWithin,
		TakeInbound:     s.TakeInbound,
		Limits:          limits,
		NoShare:         s.FloodShare == 0,
		Language:        string(s.Language),
		ShutdownTimeout: s.ShutdownTimeout,
		Registerer:      w.metrics,
		Log:             w.Log,
		Tracer:          w.trace,
	})
	if err != nil {
		return nil, err
	}
	w.ready, w.still = c.Ready, c.SinceTurn
	for _, pattern := range operator.Patterns() {
		w.pages[pattern] = operators
	}
	if err := w.submits(s.MaxBacklog, nil); err != nil {
		return nil, err
	}
	w.add("core", c.Run)
	w.add("watch", watch.Run)
	w.add("orders", func(ctx context.Context) error {
		return book.Follow(ctx, w.Broker, w.Log, func(orders.Order) {})
	})
	return w.finish(ctx)
}
