package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxErrorBytes is the length at which a stored error text is cut.
const maxErrorBytes = 2048

// queue is one queue, over one connection.
type queue struct {
	name    string
	scripts bundle
	conn    *conn
}

// job is a claimed job. Only the newest token moves it. The token is also the number of the attempt.
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

// checkVersion rejects a database with a wire version that this client does not know.
func (q *queue) checkVersion() error {
	version, err := q.conn.do("GET", "{emq}:version")
	if err != nil || version == nil {
		return err
	}
	if text := fmt.Sprint(version); !strings.HasPrefix(text, "echomq:2.") && !strings.HasPrefix(text, "echomq:3.") {
		return fmt.Errorf("the database has the wire version %q, which this client does not accept", text)
	}
	return nil
}

// claim returns the oldest job, or nil if there is none or the queue is paused. The client must check for a pause: the
// scripts do not.
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
			return nil, fmt.Errorf("claim returned %d fields", len(fields))
		}
		id, _ := fields[0].(string)
		token, _ := fields[2].(int64)
		claimed := job{id: id, token: token}
		payload, exists := fields[1].(string)
		if exists {
			claimed.payload = payload
			return &claimed, nil
		}
		// A ghost: an id without a row. To complete it removes the half row that the claim created, and counts it.
		if _, err := q.complete(claimed); err != nil {
			return nil, err
		}
	}
}

// complete deletes a finished job. It returns false if the job did not exist.
func (q *queue) complete(j job) (bool, error) {
	reply, err := q.run("complete", j.args())
	return reply == int64(1), err
}

// retry reports a failure. It returns "scheduled", or "dead" if the job has used its budget.
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

// pump promotes due jobs and reaps lapsed ones, in bounded steps, until none is left.
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
