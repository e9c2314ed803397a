package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// answerWithin limits the time of a connect and of a reply.
const answerWithin = 10 * time.Second

// redisError is an error reply of Redis. Its first word is its class.
type redisError string

func (e redisError) Error() string { return string(e) }

// conn is one Redis connection, for one goroutine. It connects at first use, and again after it broke.
type conn struct {
	url    *url.URL
	socket net.Conn
	reader *bufio.Reader
}

// do sends a command and returns its reply: string, int64, []any or nil. Any error but a redisError means that the
// connection broke. The command may or may not have run.
func (c *conn) do(command ...string) (any, error) {
	reply, err := c.exchange(command)
	if err != nil {
		c.close()
		return nil, fmt.Errorf("redis: %w", err)
	}
	if refusal, ok := reply.(redisError); ok {
		return nil, refusal
	}
	return reply, nil
}

func (c *conn) exchange(command []string) (any, error) {
	if c.socket == nil {
		if err := c.dial(); err != nil {
			return nil, err
		}
	}
	if err := c.socket.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return nil, err
	}
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(command))
	for _, word := range command {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := io.WriteString(c.socket, request.String()); err != nil {
		return nil, err
	}
	return c.read()
}

func (c *conn) dial() error {
	host := c.url.Host
	if c.url.Port() == "" {
		host = net.JoinHostPort(c.url.Hostname(), "6379")
	}
	var err error
	dialer := &net.Dialer{Timeout: answerWithin}
	if c.url.Scheme == "rediss" {
		c.socket, err = tls.DialWithDialer(dialer, "tcp", host, nil)
	} else {
		c.socket, err = dialer.Dial("tcp", host)
	}
	if err != nil {
		c.socket = nil // A nil *tls.Conn in an interface is not nil.
		return err
	}
	c.reader = bufio.NewReader(c.socket)
	if password, ok := c.url.User.Password(); ok {
		auth := []string{"AUTH", password}
		if user := c.url.User.Username(); user != "" {
			auth = []string{"AUTH", user, password}
		}
		reply, err := c.exchange(auth)
		if refusal, ok := reply.(redisError); ok {
			err = refusal
		}
		return err
	}
	return nil
}

func (c *conn) close() {
	if c.socket != nil {
		c.socket.Close()
		c.socket = nil
	}
}

// read reads one value. It returns an error reply as a value, because an array can contain one.
func (c *conn) read() (any, error) {
	line, err := c.reader.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty line instead of a reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return redisError(rest), nil
	case ':':
		return strconv.ParseInt(rest, 10, 64)
	}
	length, err := strconv.Atoi(rest)
	if err != nil || length < 0 {
		return nil, err // A length of -1 means nil.
	}
	switch kind {
	case '$':
		bytes := make([]byte, length+len("\r\n"))
		if _, err := io.ReadFull(c.reader, bytes); err != nil {
			return nil, err
		}
		return string(bytes[:length]), nil
	case '*':
		items := make([]any, length)
		for i := range items {
			if items[i], err = c.read(); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	return nil, fmt.Errorf("a reply of an unknown kind, %q", kind)
}
