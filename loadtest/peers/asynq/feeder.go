package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"
	"golang.org/x/sync/errgroup"

	"chatclub/loadtest/peers/keys"
	"chatclub/loadtest/peers/peer"
)

// queues are asynq's, to put tasks into.
type queues struct {
	settings  peer.Settings
	client    *asynq.Client
	inspector *asynq.Inspector
}

func feed(_ context.Context, s peer.Settings) (peer.Queue, error) {
	opt, err := connection(s)
	if err != nil {
		return nil, err
	}
	q := &queues{settings: s, client: asynq.NewClient(opt), inspector: asynq.NewInspector(opt)}
	return q, q.client.Ping()
}

// sideBySide is how many tasks are put at a time, since asynq has no command for
// many. Their order is lost by it, which asynq does not promise anyway.
const sideBySide = 16

// Put enqueues a task for each message.
func (q *queues) Put(ctx context.Context, list []peer.Message) error {
	putting, ctx := errgroup.WithContext(ctx)
	putting.SetLimit(sideBySide)
	for _, m := range list {
		payload, err := json.Marshal(m)
		if err != nil {
			return err
		}
		putting.Go(func() error {
			_, err := q.client.EnqueueContext(ctx, asynq.NewTask(taskType, payload),
				asynq.Queue(queueOf(q.settings, m.Page)), asynq.TaskID(m.ID))
			return err
		})
	}
	return putting.Wait()
}

// page is how many tasks are listed at a time.
const page = 1000

// lister is a method of the inspector, such as ListPendingTasks.
type lister func(queue string, opts ...asynq.ListOption) ([]*asynq.TaskInfo, error)

// Left lists all tasks by their states. An active task is one of a worker that
// was killed: asynq tries it again when its lease has ended.
func (q *queues) Left(context.Context) (left peer.Left, err error) {
	for _, p := range q.settings.Pages {
		name := queueOf(q.settings, p)
		for _, list := range []lister{
			q.inspector.ListPendingTasks, q.inspector.ListActiveTasks, q.inspector.ListScheduledTasks, q.inspector.ListRetryTasks,
		} {
			ids, err := all(list, name)
			if err != nil {
				return peer.Left{}, err
			}
			left.Waiting = append(left.Waiting, ids...)
		}
		ids, err := all(q.inspector.ListArchivedTasks, name)
		if err != nil {
			return peer.Left{}, err
		}
		left.Dead = append(left.Dead, ids...)
	}
	return left, nil
}

// all returns the ids of every task that a lister has. There may be no such queue.
func all(list lister, queue string) (ids []string, err error) {
	for n := 1; ; n++ {
		tasks, err := list(queue, asynq.PageSize(page), asynq.Page(n))
		if errors.Is(err, asynq.ErrQueueNotFound) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list tasks: %w", err)
		}
		for _, t := range tasks {
			ids = append(ids, t.ID)
		}
		if len(tasks) < page {
			return ids, nil
		}
	}
}

// Remove deletes the queues' keys. DeleteQueue would refuse to, where a killed
// worker has left an active task.
func (q *queues) Remove(ctx context.Context) error {
	faults := []error{q.client.Close(), q.inspector.Close()}
	redis, err := keys.Open(q.settings.RedisURL)
	if err != nil {
		return errors.Join(append(faults, err)...)
	}
	for _, p := range q.settings.Pages {
		faults = append(faults, redis.SRem(ctx, "asynq:queues", queueOf(q.settings, p)).Err())
	}
	return errors.Join(append(faults, keys.Remove(ctx, redis, "asynq:{"+q.settings.Namespace+"-*"), redis.Close())...)
}
