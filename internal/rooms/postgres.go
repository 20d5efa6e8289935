package rooms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// defaultMaxConns suits 8 events at a time, which is core's default.
	defaultMaxConns = 8
	// connectTimeout is below operationTimeout, so that a second try fits in.
	connectTimeout = 5 * time.Second
	// pingTimeout bounds the question whether an idle connection still lives. Without
	// it each one to a host that is gone would hold a caller.
	pingTimeout = 2 * time.Second
	// rollbackTimeout bounds a rollback after a failure. Afterwards the
	// connection is closed, which undoes the transaction as well.
	rollbackTimeout = 2 * time.Second
	// orphanTimeout is the time for which the server keeps a transaction without a
	// statement, and the locks of its rows. A machine that lost its power closes no
	// connection. The steps of a transaction follow one another in microseconds, and it
	// ends within operationTimeout.
	orphanTimeout = operationTimeout
)

// session holds the server's settings for each connection. With TCP's defaults
// the server would take two hours to notice that a client is gone.
var session = map[string]string{
	"tcp_keepalives_idle":     "30", // s without data from the client before the first probe
	"tcp_keepalives_interval": "10", // s
	"tcp_keepalives_count":    "3",
	"tcp_user_timeout":        "60000", // ms that sent data may stay unacknowledged: as long as the three above together
}

// postgres is a pool of connections, each with its own prepared statements.
type postgres struct{ pool *pgxpool.Pool }

func openPostgres(cfg Config) (*postgres, error) {
	pg, err := pgxpool.ParseConfig(cfg.DatabaseURL)
	if err != nil {
		// The parser's error may quote the URL, and with it the password.
		return nil, errors.New("database url: not a PostgreSQL URL such as postgres://user:password@host:5432/database")
	}
	if pg.ConnConfig.ConnectTimeout == 0 {
		pg.ConnConfig.ConnectTimeout = connectTimeout
	}
	if pg.ConnConfig.DefaultQueryExecMode == pgx.QueryExecModeDescribeExec {
		// Behind a pooler the server would check an event's data by another
		// statement's types, and a good event would be dead.
		return nil, errors.New("database url: default_query_exec_mode must not be describe_exec; exec is the one for a pooler")
	}
	pg.PingTimeout = cmp.Or(pg.PingTimeout, pingTimeout)
	if pg.ConnConfig.RuntimeParams["application_name"] == "" {
		pg.ConnConfig.RuntimeParams["application_name"] = "chatclub"
	}
	most := int32(min(cfg.MaxConns, 10_000))                 //nolint:gosec // 1 to 10,000
	if strings.Contains(cfg.DatabaseURL, "pool_max_conns") { // the lower one holds
		most = min(most, pg.MaxConns)
	}
	pg.MaxConns = most
	pg.AfterConnect = cfg.configure
	// A session that was given up keeps its place in the pool until it is closed. pgx
	// would take 15 s to close one politely whose host answers no more.
	pg.BeforeClose = func(conn *pgx.Conn) {
		if conn.IsClosed() {
			_ = conn.PgConn().Conn().Close() // it was given up
		}
	}
	pg.ConnConfig.DialFunc = (&net.Dialer{Timeout: pg.ConnConfig.ConnectTimeout}).DialContext // also bounds a cancellation
	if cfg.dial != nil {
		pg.ConnConfig.DialFunc = pgconn.DialFunc(cfg.dial)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), pg)
	if err != nil {
		return nil, errors.New("database url: PostgreSQL refuses its options")
	}
	return &postgres{pool}, nil
}

// configure applies the settings to a connection, except those that the URL sets.
// They are no start-up parameters, because poolers refuse these, and so do
// servers that do not know one of them.
func (c Config) configure(ctx context.Context, conn *pgx.Conn) error {
	names, values := []string{"idle_in_transaction_session_timeout"}, []string{strconv.FormatInt(c.orphanTimeout.Milliseconds(), 10)}
	for name, value := range session {
		names, values = append(names, name), append(values, value)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout) // the pool's ctx does not end with its caller's
	defer cancel()
	_, err := conn.Exec(ctx, `
		SELECT set_config(s.name, v.value, false)
		FROM unnest($1::text[], $2::text[]) AS v (name, value) JOIN pg_settings s ON s.name = v.name
		WHERE s.source <> 'client'`, names, values)
	return err
}

func (*postgres) lock() string { return " FOR UPDATE" }

func (p *postgres) begin(ctx context.Context) (transaction, error) {
	conn, err := p.pool.Acquire(ctx)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			p.pool.Reset() // none of them answered
		}
		return nil, explainPooling(err)
	}
	return &pgTx{pool: p.pool, conn: conn}, nil
}

func (p *postgres) ping(ctx context.Context) error { return p.pool.Ping(ctx) }

func (p *postgres) close() error { p.pool.Close(); return nil }

// pgTx is a transaction whose BEGIN and COMMIT are sent with its queries.
type pgTx struct {
	pool *pgxpool.Pool
	conn *pgxpool.Conn
	open bool
	err  error // of the statement that failed
}

func (t *pgTx) run(ctx context.Context, queries ...query) error { return t.send(ctx, queries, false) }

func (t *pgTx) commit(ctx context.Context, queries ...query) error {
	if err := t.send(ctx, queries, true); err != nil {
		return err
	}
	t.open = false
	return nil
}

// send pipelines the queries. A BEGIN goes before them unless the transaction is
// open, and a COMMIT behind them if commit is set.
func (t *pgTx) send(ctx context.Context, queries []query, commit bool) (err error) {
	batch := &pgx.Batch{}
	if !t.open {
		batch.Queue("BEGIN")
	}
	for _, q := range queries {
		batch.Queue(q.sql, q.args...)
	}
	if commit {
		batch.Queue("COMMIT")
	}
	results := t.conn.SendBatch(ctx, batch)
	defer func() {
		if closeErr := results.Close(); err == nil && closeErr != nil {
			err = closeErr
		}
		err = explainPooling(err)
		t.err = cmp.Or(t.err, err)
	}()
	if !t.open {
		if _, err := results.Exec(); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
		t.open = true
	}
	for _, q := range queries {
		if err := t.read(results, q); err != nil {
			return err
		}
	}
	if commit {
		if _, err := results.Exec(); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	return nil
}

func (t *pgTx) read(results pgx.BatchResults, q query) error {
	if q.scan == nil {
		tag, err := results.Exec()
		if err == nil && q.affected != nil {
			*q.affected = tag.RowsAffected()
		}
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close() // rows.Err below returns its error
	for rows.Next() {
		if err := q.scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (t *pgTx) end(ctx context.Context) {
	if t.open && !t.conn.Conn().IsClosed() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		// Its error does not matter: the connection is gone then, and the server
		// rolls back by itself.
		_, _ = t.conn.Exec(ctx, "ROLLBACK")
	}
	if t.isServerGone() {
		t.pool.Reset() // closes idle sessions now, and each that is in use when it is released
	}
	t.conn.Release()
}

// isServerGone reports whether the error says that the pool's sessions are those of a
// server that has become a standby, stops or answers no more. New ones find its
// successor.
func (t *pgTx) isServerGone() bool {
	if pg, ok := errors.AsType[*pgconn.PgError](t.err); ok {
		switch pg.Code {
		case "25006", // the transaction is read-only: the server is a standby now
			"0A000",                            // a standby knows no such statement
			"57P01", "57P02", "57P03", "57P04": // it shuts down, crashed, takes no connections, or has no such database now
			return true
		}
	}
	// A session that is closed ended by itself or was given up, unless its caller left.
	return t.err != nil && t.conn.Conn().IsClosed() && !errors.Is(t.err, context.Canceled)
}

// explainPooling adds its cause to an error of prepared statements: a pooler
// gave the session's statements to another client.
func explainPooling(err error) error {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "42P05", "26000", "08P01": // the statement exists already, is unknown, or is another
			return fmt.Errorf("prepared statements get mixed up, as by a pooler in transaction mode, "+
				"where DATABASE_URL needs default_query_exec_mode=exec: %w", err)
		}
	}
	return err
}
