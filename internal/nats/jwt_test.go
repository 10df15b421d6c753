package nats

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// TestJWT: the same rights by JWTs. The server has those of the accounts; a new host needs no change of it.
func TestJWT(t *testing.T) { rights(newWorld(t, claims)) }

// maker makes keys and JWTs.
type maker struct{ *world }

func (m maker) pair(create func() (nkeys.KeyPair, error)) (pair nkeys.KeyPair, public string) {
	m.Helper()
	pair, err := create()
	m.must(err)
	public, err = pair.PublicKey()
	m.must(err)
	return pair, public
}

func (m maker) encode(c jwt.Claims, by nkeys.KeyPair) string {
	m.Helper()
	var problems jwt.ValidationResults
	c.Validate(&problems)
	if text, err := c.Encode(by); err == nil && !problems.IsBlocking(true) {
		return text
	} else {
		m.Fatal(err, problems.Issues)
		return ""
	}
}

// scope is a signing key of an account whose users have these rights.
func (m maker) scope(account *jwt.AccountClaims, publish, subscribe []string, answers int) nkeys.KeyPair {
	m.Helper()
	pair, public := m.pair(nkeys.CreateAccount)
	s := jwt.NewUserScope()
	s.Key = public
	s.Template.Permissions = jwt.Permissions{Pub: jwt.Permission{Allow: publish}, Sub: jwt.Permission{Allow: subscribe}}
	if answers > 0 {
		s.Template.Resp = &jwt.ResponsePermission{MaxMsgs: answers, Expires: 15 * time.Minute}
	}
	account.SigningKeys.AddScopedSigner(s)
	return pair
}

// user makes the JWT of a user whose rights are those of the scope.
func (m maker) user(name, account string, scope nkeys.KeyPair) {
	m.Helper()
	pair, public := m.pair(nkeys.CreateUser)
	seed, err := pair.Seed()
	m.must(err)
	c := jwt.NewUserClaims(public)
	c.Name, c.IssuerAccount, c.UserPermissionLimits = name, account, jwt.UserPermissionLimits{}
	m.creds[name] = nats.UserJWTAndSeed(m.encode(c, scope), string(seed))
}

// claims makes an operator, the accounts and the users of the files as JWTs.
func claims(w *world) string {
	w.Helper()
	m := maker{w}
	root, rootKey := m.pair(nkeys.CreateOperator)
	_, systemKey := m.pair(nkeys.CreateAccount)
	_, storeKey := m.pair(nkeys.CreateAccount)
	_, lineageKey := m.pair(nkeys.CreateAccount)

	store := jwt.NewAccountClaims(storeKey)
	store.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: 1 << 20, DiskStorage: 20 << 30, Streams: 2, Consumer: 16}
	store.Exports.Add(&jwt.Export{Subject: ">", Type: jwt.Service, ResponseType: jwt.ResponseTypeStream, ResponseThreshold: 10 * time.Second})
	admin := m.scope(store, []string{"$JS.API.>"}, []string{"_INBOX.>"}, 0)

	lineage := jwt.NewAccountClaims(lineageKey)
	for _, s := range []jwt.Subject{"lin.h.*.receipt", "$KV.LIN_HOSTS.*", "$JS.API.DIRECT.GET.LIN_RECEIPTS.lin.h.*.receipt", "$JS.API.DIRECT.GET.LIN_RECEIPTS", "$JS.API.DIRECT.GET.KV_LIN_HOSTS"} {
		lineage.Imports.Add(&jwt.Import{Subject: s, Account: storeKey, Type: jwt.Service})
	}
	host := m.scope(lineage, []string{"lin.h.{{name()}}.receipt", "$KV.LIN_HOSTS.{{name()}}", "$JS.API.DIRECT.GET.LIN_RECEIPTS.lin.h.{{name()}}.receipt"},
		[]string{"lin.h.{{name()}}.cmd", "lin.h.{{name()}}.ask", "_INBOX.{{name()}}.>"}, 100_000)
	operator := m.scope(lineage, []string{"lin.h.*.cmd", "lin.h.*.ask", "$JS.API.DIRECT.GET.LIN_RECEIPTS", "$JS.API.DIRECT.GET.KV_LIN_HOSTS"},
		[]string{"_INBOX.{{name()}}.>"}, 0)

	m.user("admin", storeKey, admin)
	for _, name := range []string{"web1", "web2"} {
		m.user(name, lineageKey, host)
	}
	for _, name := range []string{"ann", "ben"} {
		m.user(name, lineageKey, operator)
	}
	return fmt.Sprintf("operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: { %[2]s: %s, %s: %s, %s: %s }\n",
		m.encode(jwt.NewOperatorClaims(rootKey), root), systemKey, m.encode(jwt.NewAccountClaims(systemKey), root),
		storeKey, m.encode(store, root), lineageKey, m.encode(lineage, root))
}
