// A consumer in Go that needs no module: it runs the queue's Lua scripts over a plain connection to Redis, beside
// consumers that come over HTTPS.
//
// It shows the whole duty of a client that speaks to Redis itself. It claims a job under a lease, works, and completes
// it or gives it back, with the token of the claim. It promotes what is due and reaps what has lapsed, leaves a paused
// queue alone and takes ghosts away. Which scripts there are, and in which order they want their keys and arguments,
// it reads from lua/manifest.json. On SIGTERM it ends what it has begun and claims nothing more.
//
// The jobs are {"to": "..."}; the work is to hand them to a mail API. Every event is a line of JSON on stdout.
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
	concurrency = flag.Int("concurrency", 4, "how many jobs are worked at once")
	lease       = flag.Duration("lease", 30*time.Second, "how long a job is ours; the work may take two thirds of it")
	idle        = flag.Duration("idle", 200*time.Millisecond, "how long to wait when there is nothing to do")
	pumpEvery   = flag.Duration("pump", time.Second, "how often due jobs are promoted and lapsed leases reaped")
	firstDelay  = flag.Duration("backoff", time.Second, "how long a job waits after its first failure at the most")
	grace       = flag.Duration("grace", 10*time.Second, "how long jobs may go on after SIGTERM")
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
	// A connection has one reply after the other, so each goroutine has its own.
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
	stop() // The next signal ends the process at once.
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
		return errors.New("jobs were still at work; they come back when their leases lapse")
	}
}

// work claims and works jobs, one after the other, until the context is done.
func work(ctx context.Context, q *queue, send func(job) error) {
	defer q.conn.close()
	for ctx.Err() == nil {
		job, err := q.claim(*lease)
		if err != nil {
			// If only the answer was lost, a job is leased to nobody now; it comes back when that lapses.
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

// settle completes a job, or gives it back when its work failed, and answers what became of it.
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

// maintain does what the cron of a deployment does, for queues that have no other.
func maintain(ctx context.Context, q *queue) {
	defer q.conn.close()
	for ctx.Err() == nil {
		if err := q.pump(); err != nil {
			log.Print(err)
		}
		sleep(ctx, *pumpEvery)
	}
}

// backoff is how long a job waits after so many attempts: anything up to a bound that doubles, so that jobs which
// failed together do not come back together.
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

// mailer hands emails to a mail API.
type mailer struct {
	url  string
	http http.Client
}

// send may run more than once for a job: queues deliver at least once. The job's id lets the mail API see that.
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
		return fmt.Errorf("the mail API answered %d", response.StatusCode)
	}
	return nil
}

// report prints what became of a job. A stale token means that its lease was lost: the job is somebody else's.
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
