// A consumer in Go without dependencies. It runs the queue's Lua scripts over a plain Redis connection, and works beside
// consumers over HTTPS.
//
// It shows everything that a client with its own Redis connection must do. It claims a job under a lease, works, and
// completes or retries the job with the token of the claim. It promotes due jobs, reaps lapsed ones, respects a pause
// and removes ghosts. It reads the scripts, and the order of their keys and arguments, from lua/manifest.json. On
// SIGTERM it stops claiming and finishes the running jobs.
//
// A job is {"to": "..."}. The work is one request to a mail API. Every event is one line of JSON on stdout.
//
//	REDIS_URL=redis://127.0.0.1:6379 MAIL_URL=https://mail.example.com/send go run . -queue emails
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"
)

var (
	queueName   = flag.String("queue", "emails", "the queue to work")
	luaFolder   = flag.String("lua", "../../lua", "the folder of manifest.json and the scripts")
	concurrency = flag.Int("concurrency", 4, "how many jobs run in parallel")
	lease       = flag.Duration("lease", 30*time.Second, "the lease of a job; the work may take two thirds of it")
	idle        = flag.Duration("idle", 200*time.Millisecond, "how long to wait after an empty claim")
	pumpEvery   = flag.Duration("pump", time.Second, "how often to promote due jobs and reap lapsed ones")
	firstDelay  = flag.Duration("backoff", time.Second, "the longest delay after the first failure")
	grace       = flag.Duration("grace", 10*time.Second, "how long running jobs may take after SIGTERM")
)

func main() {
	flag.Parse()
	rand.Seed(time.Now().UnixNano())
	if err := consume(); err != nil {
		log.Fatal(err)
	}
}

func consume() error {
	redis, err := url.Parse(os.Getenv("REDIS_URL"))
	if err != nil || redis.Host == "" {
		return errors.New("REDIS_URL must be like redis://127.0.0.1:6379 or rediss://default:password@example.com:6379")
	}
	scripts, err := loadBundle(*luaFolder)
	if err != nil {
		return err
	}
	// A connection serves one command at a time, so each goroutine has its own.
	open := func() *queue { return &queue{name: *queueName, scripts: scripts, conn: &conn{url: redis}} }
	upkeep := open()
	if err := upkeep.checkVersion(); err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	mail := &mailer{url: os.Getenv("MAIL_URL"), http: http.Client{Timeout: *lease * 2 / 3}}
	var workers sync.WaitGroup
	for i := 0; i < *concurrency; i++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			work(ctx, open(), mail.send)
		}()
	}
	go maintain(ctx, upkeep)

	<-ctx.Done()
	stop() // A second signal ends the process at once.
	say(map[string]any{"event": "stopping"})
	ended := make(chan struct{})
	go func() {
		workers.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(*grace):
		return errors.New("some jobs are still running; they return when their leases lapse")
	}
}

// work claims jobs and works them, one at a time, until the context is done.
func work(ctx context.Context, q *queue, send func(job) error) {
	defer q.conn.close()
	for ctx.Err() == nil {
		job, err := q.claim(*lease)
		if err != nil {
			// If only the reply was lost, the claimed job returns when its lease lapses.
			log.Print(err)
			sleep(ctx, time.Second)
			continue
		}
		if job == nil {
			sleep(ctx, *idle)
			continue
		}
		event, err := settle(q, *job, send(*job))
		report(*job, event, err)
	}
}

// settle completes a job, or retries it if the work failed. It returns the event to report.
func settle(q *queue, j job, failure error) (string, error) {
	if failure != nil {
		state, err := q.retry(j, backoff(j.token), failure.Error())
		if state == "dead" {
			return "dead", err
		}
		return "retried", err
	}
	retired, err := q.complete(j)
	if !retired {
		return "gone", err
	}
	return "completed", err
}

// maintain does the work of the cron, for queues without one.
func maintain(ctx context.Context, q *queue) {
	defer q.conn.close()
	for ctx.Err() == nil {
		if err := q.pump(); err != nil {
			log.Print(err)
		}
		sleep(ctx, *pumpEvery)
	}
}

// backoff returns the delay after an attempt: backoff with full jitter. The random delay keeps jobs that failed together
// from returning together.
func backoff(attempt int64) time.Duration {
	const most = 10 * time.Minute
	bound := *firstDelay
	for ; attempt > 1 && bound < most; attempt-- {
		bound *= 2
	}
	if bound > most {
		bound = most
	}
	return time.Duration(rand.Int63n(int64(bound) + 1))
}

// mailer sends emails through a mail API.
type mailer struct {
	url  string
	http http.Client
}

// send can run twice for one job, because delivery is at-least-once. With the job's id, the mail API can detect that.
func (m *mailer) send(j job) error {
	request, err := http.NewRequest(http.MethodPost, m.url, strings.NewReader(j.payload))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", j.id)
	response, err := m.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body)
	if response.StatusCode >= 300 {
		return fmt.Errorf("the mail API returned %d", response.StatusCode)
	}
	return nil
}

// report prints the event of a job. A stale token means that the lease was lost.
func report(j job, event string, err error) {
	if isRefusal(err, "EMQSTALE") {
		event = "leaseLost"
	} else if err != nil {
		log.Printf("%s: %v", j.id, err)
		return
	}
	say(map[string]any{"event": event, "id": j.id, "token": j.token})
}

var stdout = struct {
	sync.Mutex
	*json.Encoder
}{Encoder: json.NewEncoder(os.Stdout)}

func say(line map[string]any) {
	stdout.Lock()
	defer stdout.Unlock()
	stdout.Encode(line)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
