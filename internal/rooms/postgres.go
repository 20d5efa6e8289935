package rooms

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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
	// rollbackTimeout bounds a rollback after a failure. Afterwards the
	// connection is closed, which undoes the transaction as well.
	rollbackTimeout = 2 * time.Second
	// orphanTimeout is how long the server keeps a transaction without a
	// statement, and the locks of its rows. A machine that lost its power closes
	// no connection. The steps of a transaction follow one another in
	// microseconds, and it ends within operationTimeout.
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
	if pg.ConnConfig.RuntimeParams["application_name"] == "" {
		pg.ConnConfig.RuntimeParams["application_name"] = "chatclub"
	}
	pg.MaxConns = int32(min(cfg.MaxConns, 10_000)) //nolint:gosec // 1 to 10,000
	pg.AfterConnect = cfg.configure
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
		return nil, err
	}
	return &pgTx{conn: conn}, nil
}

func (p *postgres) ping(ctx context.Context) error { return p.pool.Ping(ctx) }

func (p *postgres) close() error { p.pool.Close(); return nil }

// pgTx is a transaction whose BEGIN and COMMIT are sent with its queries.
type pgTx struct {
	conn *pgxpool.Conn
	open bool
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
	t.conn.Release()
}
