package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxErrorBytes is how much of an error's text is kept with a job.
const maxErrorBytes = 2048

// queue is one queue, over one connection.
type queue struct {
	name    string
	scripts bundle
	conn    *conn
}

// job is a job under a lease. The token fences it: only the newest one moves the job, and it is the number of the
// attempt as well.
type job struct {
	id      string
	payload string
	token   int64
}

func (j job) args() args { return args{"id": j.id, "token": strconv.FormatInt(j.token, 10)} }

func (q *queue) key(kind string) string { return "emq:{" + q.name + "}:" + kind }

func (q *queue) run(name string, given args) (any, error) {
	return q.conn.run(q.scripts[name], q.name, given)
}

// checkVersion refuses a database that bears the wire version of other scripts.
func (q *queue) checkVersion() error {
	version, err := q.conn.do("GET", "{emq}:version")
	if err != nil || version == nil {
		return err
	}
	if text := fmt.Sprint(version); !strings.HasPrefix(text, "echomq:2.") && !strings.HasPrefix(text, "echomq:3.") {
		return fmt.Errorf("the database is of the wire version %q", text)
	}
	return nil
}

// claim takes the oldest job, or nil when there is none or the queue is paused. Pausing is a rule of the clients: the
// scripts do not know of it.
func (q *queue) claim(lease time.Duration) (*job, error) {
	for {
		paused, err := q.conn.do("HEXISTS", q.key("meta"), "paused")
		if err != nil || paused == int64(1) {
			return nil, err
		}
		reply, err := q.run("claim", args{"jobPrefix": q.key("job:"), "leaseMs": milliseconds(lease)})
		if err != nil {
			return nil, err
		}
		fields, _ := reply.([]any)
		if len(fields) == 0 {
			return nil, nil
		}
		if len(fields) != 3 {
			return nil, fmt.Errorf("claim answered %d fields", len(fields))
		}
		id, _ := fields[0].(string)
		token, _ := fields[2].(int64)
		claimed := job{id: id, token: token}
		payload, exists := fields[1].(string)
		if exists {
			claimed.payload = payload
			return &claimed, nil
		}
		// A ghost: an id whose row is gone. Completing it takes away what the claim left of it, and counts it.
		if _, err := q.complete(claimed); err != nil {
			return nil, err
		}
	}
}

// complete retires a job that is done; false means that it was gone already.
func (q *queue) complete(j job) (bool, error) {
	reply, err := q.run("complete", j.args())
	return reply == int64(1), err
}

// retry gives a job back, to be claimed again after a delay. It answers "scheduled", or "dead" for a job that has been
// tried often enough, by its own limit or the queue's.
func (q *queue) retry(j job, delay time.Duration, reason string) (string, error) {
	if len(reason) > maxErrorBytes {
		reason = strings.ToValidUTF8(reason[:maxErrorBytes], "")
	}
	given := j.args()
	given["delayMs"] = milliseconds(delay)
	given["maxAttempts"] = ""
	given["error"] = reason
	reply, err := q.run("retry", given)
	state, _ := reply.(string)
	return state, err
}

// pump moves what is due to pending and takes lapsed leases away, a bounded number at a time, until nothing is left.
func (q *queue) pump() error {
	const limit = 100
	for _, name := range []string{"promote", "reap"} {
		for {
			moved, err := q.run(name, args{"jobPrefix": q.key("job:"), "limit": strconv.Itoa(limit)})
			if err != nil {
				return err
			}
			if count, _ := moved.(int64); count < limit {
				break
			}
		}
	}
	return nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
