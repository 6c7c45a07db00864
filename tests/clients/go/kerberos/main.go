// kerberos BOOTSTRAP SERVICE USER REALM KEYTAB KRB5_CONF: log in with GSSAPI and print the brokers' number.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/kerberos"
)

func main() {
	bootstrap, service, user, realm := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	keys, err := keytab.Load(os.Args[5])
	if err != nil {
		panic(err)
	}
	settings, err := config.Load(os.Args[6])
	if err != nil {
		panic(err)
	}
	logIn := func(context.Context) *client.Client {
		return client.NewWithKeytab(user, realm, keys, settings, client.DisablePAFXFAST(true))
	}
	mechanism := kerberos.Auth{ClientFn: logIn, Service: service}.AsMechanism()
	kafka, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.SASL(mechanism))
	if err != nil {
		panic(err)
	}
	defer kafka.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	brokers, err := kadm.NewClient(kafka).ListBrokers(ctx)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(len(brokers))
}
