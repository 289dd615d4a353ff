// HTTP, HTTPS that tells which name it was asked for, and ports that take both.
// Arguments: folder, HTTP port, HTTPS port, and the ports for both.
package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

type peeked struct {
	net.Conn
	reader *bufio.Reader
}

func (c peeked) Read(bytes []byte) (int, error) { return c.reader.Read(bytes) }

type one struct{ connections chan net.Conn }

func (l one) Accept() (net.Conn, error) { return <-l.connections, nil }
func (l one) Close() error              { return nil }
func (l one) Addr() net.Addr            { return &net.TCPAddr{} }

func main() {
	folder := os.Args[1]
	file := func(name string) []byte {
		bytes, _ := os.ReadFile(folder + "/" + name)
		return bytes
	}
	allowedBody, otherBody := file("allowed/index.html"), file("other/index.html")
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := strings.TrimSuffix(strings.ToLower(strings.Split(r.Host, ":")[0]), ".")
		if strings.HasSuffix(host, "other.test") {
			fmt.Println("EVIDENCE http", host)
			w.Write(otherBody)
			return
		}
		w.Write(allowedBody)
	})
	pair := func(name string) *tls.Certificate {
		pair, err := tls.LoadX509KeyPair(folder+"/"+name+".pem", folder+"/"+name+".key")
		if err != nil {
			log.Fatal(err)
		}
		return &pair
	}
	allowed, other := pair("allowed"), pair("other")
	config := &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if strings.HasSuffix(strings.TrimSuffix(strings.ToLower(hello.ServerName), "."), "other.test") {
			fmt.Println("EVIDENCE sni", hello.ServerName)
			return other, nil
		}
		return allowed, nil
	}}
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	listen := func(port string) net.Listener {
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			log.Fatal(err)
		}
		return listener
	}
	go server.Serve(listen(os.Args[2]))
	go server.Serve(tls.NewListener(listen(os.Args[3]), config))
	plain, secure := one{make(chan net.Conn)}, one{make(chan net.Conn)}
	go server.Serve(plain)
	go server.Serve(tls.NewListener(secure, config))
	for _, port := range os.Args[4:] {
		listener := listen(port)
		go func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				go func() {
					// As real servers do, which wait for nobody for ever.
					connection.SetReadDeadline(time.Now().Add(3 * time.Second))
					reader := bufio.NewReader(connection)
					first, err := reader.Peek(1)
					if err != nil {
						connection.Close()
						return
					}
					connection.SetReadDeadline(time.Time{})
					if len(first) == 1 && (first[0] < 32 && first[0] != '\r' && first[0] != '\n' || first[0] >= 128) {
						secure.connections <- peeked{connection, reader}
					} else {
						plain.connections <- peeked{connection, reader}
					}
				}()
			}
		}()
	}
	select {}
}
