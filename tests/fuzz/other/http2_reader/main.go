// HTTP/2 as Go's published server has it: what it makes of the bytes of a client, a line of JSON for each.
//
// No handler answers, so that the states of streams follow from the client's frames alone.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"
	_ "unsafe" // for the name of another package's variable

	"golang.org/x/net/http2"
)

type asked struct {
	Bytes       string
	Streams     uint32
	HeaderBytes int
}

type request struct {
	Method string   `json:"method"`
	Path   string   `json:"path"`
	Fields []string `json:"fields"`
	// Those whose names the request has announced in a field "trailer".
	Trailers []string `json:"trailers"`
	Body     string   `json:"body"`
	Whole    bool     `json:"whole"`
}

type seen struct {
	// The code that ended the connection; -1 if it goes on, 0 if it was closed without a code.
	Ended int `json:"ended"`
	// By stream: the code of its reset.
	Resets map[uint32]uint32 `json:"resets"`
	// By stream. One that is refused by a status is in neither.
	Requests map[uint32]*request `json:"requests"`
}

// Nothing takes as long.
const patience = 5 * time.Second

var sentinel = [8]byte{'t', 'h', 'e', ' ', 'e', 'n', 'd', '.'}

// How long the server waits between its GOAWAY and the end.
//
//go:linkname goAwayTimeout golang.org/x/net/http2.goAwayTimeout
var goAwayTimeout time.Duration

func main() {
	goAwayTimeout = time.Millisecond
	log.SetOutput(io.Discard)
	in := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return
		}
		var ask asked
		if err != nil || json.Unmarshal(line, &ask) != nil {
			log.Fatal("wanted lines of JSON")
		}
		bytes, err := hex.DecodeString(ask.Bytes)
		if err != nil {
			log.Fatal(err)
		}
		if out.Encode(converse(ask, bytes)) != nil {
			return
		}
	}
}

func converse(ask asked, bytes []byte) seen {
	before := runtime.NumGoroutine()
	client, server := net.Pipe()
	client.SetDeadline(time.Now().Add(patience))
	result := seen{Ended: -1, Resets: map[uint32]uint32{}, Requests: map[uint32]*request{}}
	var lock sync.Mutex
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := &request{Method: r.Method, Path: r.RequestURI, Fields: fieldsOf(r.Header)}
		body, err := io.ReadAll(r.Body)
		got.Body, got.Whole = hex.EncodeToString(body), err == nil
		got.Trailers = fieldsOf(r.Trailer)
		lock.Lock()
		result.Requests[streamOf(w)] = got
		lock.Unlock()
		<-r.Context().Done()
	})

	served := make(chan struct{})
	go func() {
		defer close(served)
		one := &http.Server{MaxHeaderBytes: ask.HeaderBytes, ErrorLog: log.New(io.Discard, "", 0)}
		(&http2.Server{MaxConcurrentStreams: ask.Streams, MaxReadFrameSize: 16384}).ServeConn(server, &http2.ServeConnOpts{BaseConfig: one, Handler: handler})
	}()
	go func() {
		client.Write(append([]byte(http2.ClientPreface), bytes...))
		framer := http2.NewFramer(client, nil)
		framer.WritePing(false, sentinel)
	}()
	listen(client, &result)
	client.Close()
	<-served
	// The server starts a handler in a goroutine of its own.
	for runtime.NumGoroutine() > before {
		time.Sleep(20 * time.Microsecond)
	}
	return result
}

// Reads what the server says until it has seen all bytes, or gives the connection up.
func listen(client net.Conn, result *seen) {
	framer := http2.NewFramer(io.Discard, client)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			result.Ended = 0
			return
		}
		switch frame := frame.(type) {
		case *http2.PingFrame:
			if frame.Data == sentinel {
				return
			}
		case *http2.GoAwayFrame:
			if frame.ErrCode != http2.ErrCodeNo {
				result.Ended = int(frame.ErrCode)
				return
			}
		case *http2.RSTStreamFrame:
			// A status that refuses a request is followed by one without an error, if it is still there to be seen.
			if _, known := result.Resets[frame.StreamID]; !known && frame.ErrCode != http2.ErrCodeNo {
				result.Resets[frame.StreamID] = uint32(frame.ErrCode)
			}
		}
	}
}

// The number of a stream, which the package keeps to itself.
func streamOf(w http.ResponseWriter) uint32 {
	state := reflect.ValueOf(w).Elem().FieldByName("rws").Elem()
	return uint32(state.FieldByName("stream").Elem().FieldByName("id").Uint())
}

func fieldsOf(header http.Header) []string {
	fields := []string{}
	for name, values := range header {
		for _, value := range values {
			fields = append(fields, strings.ToLower(name)+": "+hex.EncodeToString([]byte(value)))
		}
	}
	return fields
}
