package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"chatclub/loadtest/peers/peer"
)

// jobs are River's table in a schema of the run.
type jobs struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	schema string // quoted
}

func feed(ctx context.Context, s peer.Settings) (_ peer.Queue, err error) {
	pool, err := connect(ctx, s)
	if err != nil {
		return nil, err
	}
	q := &jobs{pool: pool, schema: pgx.Identifier{s.Namespace}.Sanitize()}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.Remove(ctx))
		}
	}()
	if _, err = pool.Exec(ctx, "CREATE SCHEMA "+q.schema); err != nil {
		return nil, fmt.Errorf("create schema: %w", err)
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: s.Namespace})
	if err != nil {
		return nil, err
	}
	if _, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, fmt.Errorf("make River's tables: %w", err)
	}
	if q.client, err = river.NewClient(driver, &river.Config{Schema: s.Namespace}); err != nil {
		return nil, err
	}
	return q, nil
}

// Put inserts a job for each message, in one statement.
func (q *jobs) Put(ctx context.Context, list []peer.Message) error {
	params := make([]river.InsertManyParams, len(list))
	for i, m := range list {
		params[i] = river.InsertManyParams{Args: send{m}, InsertOpts: &river.InsertOpts{Queue: queueOf(m.Page)}}
	}
	_, err := q.client.InsertManyFast(ctx, params)
	return err
}

// Left lists the jobs by their states. A running job is one of a worker that was
// killed: River tries it again after an hour.
func (q *jobs) Left(ctx context.Context) (left peer.Left, err error) {
	rows, err := q.pool.Query(ctx, "SELECT args->>'id', state FROM "+q.schema+".river_job WHERE state <> $1", rivertype.JobStateCompleted)
	if err != nil {
		return left, fmt.Errorf("list jobs: %w", err)
	}
	var id, state string
	_, err = pgx.ForEachRow(rows, []any{&id, &state}, func() error {
		switch rivertype.JobState(state) { //nolint:exhaustive // all others wait
		case rivertype.JobStateCancelled, rivertype.JobStateDiscarded:
			left.Dead = append(left.Dead, id)
		default:
			left.Waiting = append(left.Waiting, id)
		}
		return nil
	})
	return left, err
}

// Remove drops the schema.
func (q *jobs) Remove(ctx context.Context) error {
	_, err := q.pool.Exec(ctx, "DROP SCHEMA IF EXISTS "+q.schema+" CASCADE")
	q.pool.Close()
	return err
}
