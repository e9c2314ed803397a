package main

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// script is one entry of lua/manifest.json, with the bytes of its file.
type script struct {
	Name, File, Sha1   string
	Keys, OptionalKeys []string
	Args               []string
	Repeatable         bool
	source             string
}

// bundle holds the core scripts by name.
type bundle map[string]script

// loadBundle reads the manifest in a folder and the scripts that it lists. It rejects a script whose SHA-1 differs from
// the manifest, because all clients of a queue must run the same scripts.
func loadBundle(folder string) (bundle, error) {
	text, err := os.ReadFile(filepath.Join(folder, "manifest.json"))
	if err != nil {
		return nil, err
	}
	var manifest struct{ Core []script }
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	scripts := bundle{}
	for _, s := range manifest.Core {
		source, err := os.ReadFile(filepath.Join(folder, s.File))
		if err != nil {
			return nil, err
		}
		sum := sha1.Sum(source)
		if digest := hex.EncodeToString(sum[:]); digest != s.Sha1 {
			return nil, fmt.Errorf("%s has the SHA-1 %s, not the manifest's %s", s.File, digest, s.Sha1)
		}
		s.source = string(source)
		s.Keys = append(s.Keys, s.OptionalKeys...)
		scripts[s.Name] = s
	}
	return scripts, nil
}

// args are the arguments of a script, by their names in the manifest.
type args map[string]string

// command builds the EVALSHA of a script: it fills the key templates and puts the arguments in order.
func (s script) command(queue string, given args) ([]string, error) {
	fill := strings.NewReplacer("{q}", "{"+queue+"}", "<id>", given["id"])
	command := []string{"EVALSHA", s.Sha1, strconv.Itoa(len(s.Keys))}
	for _, key := range s.Keys {
		command = append(command, fill.Replace(key))
	}
	for _, word := range s.Args {
		if strings.HasSuffix(word, "?") {
			break // Optional arguments come last. This client does not use them.
		}
		value, ok := given[word]
		if !ok {
			return nil, fmt.Errorf("%s needs the argument %s, which this client does not know", s.Name, word)
		}
		command = append(command, value)
	}
	return command, nil
}

const (
	// When the connection breaks, a repeatable script is sent this often, within about six seconds.
	maxSends   = 6
	firstPause = 200 * time.Millisecond
)

// run runs a script of the bundle. If the reply is lost, it repeats a repeatable script.
func (c *conn) run(s script, queue string, given args) (any, error) {
	command, err := s.command(queue, given)
	if err != nil {
		return nil, err
	}
	pause := firstPause
	for sends := 1; ; sends++ {
		reply, err := c.evalsha(command, s.source)
		var refusal redisError
		if err == nil || errors.As(err, &refusal) || !s.Repeatable || sends == maxSends {
			return reply, err
		}
		time.Sleep(pause)
		pause *= 2
	}
}

// evalsha loads the script only if Redis does not have it.
func (c *conn) evalsha(command []string, source string) (any, error) {
	reply, err := c.do(command...)
	if !isRefusal(err, "NOSCRIPT") {
		return reply, err
	}
	if _, err := c.do("SCRIPT", "LOAD", source); err != nil {
		return nil, err
	}
	return c.do(command...)
}

// isRefusal reports whether the error is a Redis error of this class.
func isRefusal(err error, class string) bool {
	var refusal redisError
	return errors.As(err, &refusal) && strings.HasPrefix(string(refusal), class)
}
