package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// feed makes River's tables in a schema of the run, does the commands on standard
// input, and drops the schema.
func feed(ctx context.Context, pool *pgxpool.Pool, s settings) (err error) {
	schema, driver := pgx.Identifier{s.namespace}.Sanitize(), riverpgxv5.New(pool)
	defer func() {
		_, e := pool.Exec(context.WithoutCancel(ctx), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		err = errors.Join(err, e)
	}()
	if _, err = pool.Exec(ctx, "CREATE SCHEMA "+schema); err != nil {
		return fmt.Errorf("create schema: %w", err)
	}
	migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Schema: s.namespace})
	if err != nil {
		return err
	}
	if _, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("make River's tables: %w", err)
	}
	client, err := river.NewClient(driver, &river.Config{Schema: s.namespace})
	if err != nil {
		return err
	}
	commands, replies := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	fmt.Fprintln(os.Stdout, "ready")
	for {
		var c struct {
			Put []send // else it asks what is left
		}
		if err := commands.Decode(&c); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		answer := make(map[string]any)
		if len(c.Put) > 0 {
			var jobs []river.InsertManyParams
			for _, m := range c.Put {
				jobs = append(jobs, river.InsertManyParams{Args: m, InsertOpts: &river.InsertOpts{Queue: queueOf(m.Page)}})
			}
			answer["put"], err = client.InsertManyFast(ctx, jobs)
		} else {
			answer["left"], err = list(ctx, pool, schema)
		}
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		_ = replies.Encode(answer) // an error is of a load test that is gone
	}
}

// list returns the ids of the messages that were not sent. A running job is of a
// worker that was killed: River tries it again after an hour.
func list(ctx context.Context, pool *pgxpool.Pool, schema string) (map[string][]string, error) {
	rows, err := pool.Query(ctx, "SELECT args->>'id', CASE WHEN state IN ('cancelled', 'discarded') THEN 'dead' ELSE 'waiting' END FROM "+schema+".river_job WHERE state <> 'completed'")
	if err != nil {
		return nil, err
	}
	var id, kind string
	left := make(map[string][]string)
	_, err = pgx.ForEachRow(rows, []any{&id, &kind}, func() error {
		left[kind] = append(left[kind], id)
		return nil
	})
	return left, err
}
