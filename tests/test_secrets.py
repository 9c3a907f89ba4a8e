"""Credentials that a text must not hold: each kind is found where it stands, what only looks like one is not, no text is dear.

No credential stands in this file: each is put together from parts when the tests run, and none was ever issued.
"""

from __future__ import annotations

import base64
import random
import string
import subprocess
import sys
from pathlib import Path

import pytest

import engine

ENGINE = str(Path(engine.__file__).resolve())
UPPER = string.ascii_uppercase + "234567"
WORD = string.ascii_letters + string.digits
URLSAFE = WORD + "_-"
BASE64 = WORD + "+/"
DIGITS = "123456789"
HEX = "0123456789abcdef"


class Maker:
    """What invents values of a credential's form; the same seed gives the same ones."""

    def __init__(self, seed):
        self.chance = random.Random(seed)

    def draw(self, letters, size):
        """Return text of so many letters; the first are a digit and two letters, as chance nearly always gives somewhere."""
        head = [letters[-1], *self.chance.sample(letters, 2)]
        return "".join(self.chance.choice(letters) for _ in range(size - 3)) + "".join(head)

    def mixed(self, size):
        """Return letters and digits in turn, as a made up password has them."""
        return "".join(self.chance.choice(string.digits if i % 3 == 1 else string.ascii_letters) for i in range(size))

    def base64(self, size):
        """Return so many bytes in base64."""
        return base64.b64encode(bytes(self.chance.randrange(256) for _ in range(size))).decode()

    def lines(self, size):
        """Return so many bytes in base64, in lines as a key's file has them."""
        text = self.base64(size)
        return "\n".join(text[i:i + 64] for i in range(0, len(text), 64))


def key_block(maker, label, head="", mark="PRIVATE KEY"):
    """Return a private key's block."""
    rule = "-" * 5
    return "%sBEGIN %s%s%s\n%s%s\n%sEND %s%s%s" % (rule, label, mark, rule, head, maker.lines(200), rule, label, mark, rule)


def web_token(maker):
    """Return a signed web token: three parts, two of them JSON."""
    head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(b'{"sub":"deploy","iat":%d}' % maker.chance.randrange(10**9)).decode().rstrip("=")
    return ".".join((head, body, maker.draw(URLSAFE, 43)))


#: Kind -> (words of its name, what stands before it, how it is made, what follows it).
FORMS = {
    "pem": ("private key", "the host has ", lambda m: key_block(m, ""), " now"),
    "pem-rsa": ("private key", "", lambda m: key_block(m, "RSA "), ""),
    "pem-ec": ("private key", "", lambda m: key_block(m, "EC "), "\n"),
    "pem-openssh": ("private key", "", lambda m: key_block(m, "OPENSSH "), "\n"),
    "pem-encrypted": ("private key", "", lambda m: key_block(m, "RSA ", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n"), "\n"),
    "pgp": ("private key", "", lambda m: key_block(m, "PGP ", "Version: GnuPG v2\n\n", "PRIVATE KEY BLOCK"), "\n"),
    "pem-in-json": ("private key", '{"private_key": "', lambda m: key_block(m, "").replace("\n", "\\n"), '"}'),
    "pem-cut": ("private key", "see ", lambda m: key_block(m, "RSA ").rpartition("\n")[0], ""),
    "putty": ("private key", "Comment: x\n", lambda m: "Private-" + "Lines: 4\n" + m.lines(90), ""),
    "age": ("private key", "", lambda m: "AGE-SECRET-" + "KEY-1" + m.draw(UPPER, 58), "\n"),
    "aws-id": ("AWS", "uses ", lambda m: "AK" + "IA" + m.draw(UPPER, 16), " since May"),
    "aws-id-short-lived": ("AWS", "(", lambda m: "AS" + "IA" + m.draw(UPPER, 16), ")"),
    "aws-secret-ini": ("AWS", "aws_secret_access_key = ", lambda m: m.draw(BASE64, 40), "\n"),
    "aws-secret-env": ("AWS", "export AWS_SECRET_ACCESS_KEY=", lambda m: m.draw(BASE64, 40), "\n"),
    "aws-secret-json": ("AWS", '"SecretAccessKey": "', lambda m: m.draw(BASE64, 40), '",'),
    "github-classic": ("GitHub", "uses ", lambda m: "gh" + "p_" + m.draw(WORD, 36), "."),
    "github-repeating": ("GitHub", "uses ", lambda m: "gh" + "p_" + "a1B2" * 9, "."),
    "github-oauth": ("GitHub", "", lambda m: "gh" + "o_" + m.draw(WORD, 36), ""),
    "github-user": ("GitHub", "", lambda m: "gh" + "u_" + m.draw(WORD, 36), ""),
    "github-server": ("GitHub", "", lambda m: "gh" + "s_" + m.draw(WORD, 36), ""),
    "github-refresh": ("GitHub", "", lambda m: "gh" + "r_" + m.draw(WORD, 76), ""),
    "github-fine": ("GitHub", "`", lambda m: "github_" + "pat_" + m.draw(WORD, 22) + "_" + m.draw(WORD, 59), "`"),
    "github-in-url": ("GitHub", "https://", lambda m: "gh" + "p_" + m.draw(WORD, 36), "@github.com/acme/x.git"),
    "gitlab": ("GitLab", "PRIVATE-TOKEN: ", lambda m: "gl" + "pat-" + m.draw(URLSAFE, 20), "\n"),
    "gitlab-runner": ("GitLab", "runs with ", lambda m: "gl" + "rt-" + m.draw(URLSAFE, 20), " now"),
    "slack-bot": ("Slack", "is ", lambda m: "xo" + "xb-" + m.draw(DIGITS, 12) + "-" + m.draw(DIGITS, 13) + "-" + m.draw(WORD, 24), ""),
    "slack-user": ("Slack", "is ", lambda m: "xo" + "xp-" + m.draw(DIGITS, 12) + "-" + m.draw(DIGITS, 12) + "-" + m.draw(HEX, 32), ""),
    "slack-app": ("Slack", "is ", lambda m: "xa" + "pp-1-A" + m.draw(UPPER, 10) + "-" + m.draw(DIGITS, 13) + "-" + m.draw(HEX, 64), ""),
    "slack-webhook": ("Slack", "https://", lambda m: "hooks.slack" + ".com/services/T%s/B%s/%s" % (
        m.draw(UPPER, 10), m.draw(UPPER, 10), m.draw(WORD, 24)), " posts"),
    "discord-webhook": ("Discord", "https://", lambda m: "discord" + ".com/api/webhooks/%s/%s" % (
        m.draw(DIGITS, 19), m.draw(URLSAFE, 68)), ""),
    "stripe": ("Stripe", "pays with ", lambda m: "sk_" + "live_" + m.draw(WORD, 24), ","),
    "stripe-restricted": ("Stripe", "pays with ", lambda m: "rk_" + "live_" + m.draw(WORD, 99), ","),
    "openai": ("OpenAI", "", lambda m: "sk" + "-" + m.draw(WORD, 48), ""),
    "openai-project": ("OpenAI", "OPENAI_API_KEY=", lambda m: "sk" + "-proj-" + m.draw(URLSAFE, 148), "\n"),
    "anthropic": ("Anthropic", "x-api-key: ", lambda m: "sk" + "-ant-api03-" + m.draw(URLSAFE, 93), "\n"),
    "google": ("Google", "?key=", lambda m: "AI" + "za" + m.draw(URLSAFE, 35), "&q=1"),
    "google-client": ("Google", "", lambda m: "GOC" + "SPX-" + m.draw(URLSAFE, 28), ""),
    "npm": ("npm", "", lambda m: "np" + "m_" + m.draw(WORD, 36), ""),
    "pypi": ("PyPI", "", lambda m: "pypi-" + "AgEIcHlwaS5vcmc" + m.draw(URLSAFE, 150), ""),
    "hugging-face": ("Hugging Face", "", lambda m: "h" + "f_" + m.draw(string.ascii_letters, 34), ""),
    "sendgrid": ("SendGrid", "", lambda m: "S" + "G." + m.draw(URLSAFE, 22) + "." + m.draw(URLSAFE, 43), ""),
    "twilio": ("Twilio", "", lambda m: "S" + "K" + m.draw(HEX, 32), ""),
    "telegram": ("Telegram", "the bot is ", lambda m: m.draw(DIGITS, 10) + ":" + "AA" + m.draw(WORD, 33), " now"),
    "telegram-in-url": ("Telegram", "https://api.telegram.org/bot", lambda m: m.draw(DIGITS, 10) + ":" + "AA" + m.draw(WORD, 33), "/getMe"),
    "azure": ("Azure", "AccountName=acme;Account" + "Key=", lambda m: m.base64(64), ";EndpointSuffix=core.windows.net"),
    "azure-bus": ("Azure", "SharedAccess" + "Key=", lambda m: m.base64(32), "\n"),
    "digitalocean": ("service", "", lambda m: "dop_" + "v1_" + m.draw(HEX, 64), ""),
    "shopify": ("service", "", lambda m: "shp" + "at_" + m.draw(HEX, 32), ""),
    "web-token": ("signed", "Cookie: session=", web_token, "; Path=/"),
    "url": ("URL", "postgres://deploy:", lambda m: m.mixed(12), "@db.internal:5432/app"),
    "url-no-user": ("URL", "redis://:", lambda m: m.mixed(20), "@cache:6379/0"),
    "url-words": ("URL", "amqp://svc:", lambda m: "corrects" + "horses", "@mq.acme.io/"),
    "password": ("password", 'password = "', lambda m: m.mixed(12), '"'),
    "password-env": ("password", "DB_PASSWORD=", lambda m: m.mixed(16), "\n"),
    "password-yaml": ("password", "  passwd: ", lambda m: m.mixed(14), "\n"),
    "password-said": ("password", "The staging password is ", lambda m: m.mixed(12), "."),
    "password-made-up": ("password", "password: ", lambda m: "Spring" + "2031!", "\n"),
    "api-key": ("secret", '{"api_key": "', lambda m: m.mixed(20), '"}'),
    "api-key-escaped": ("secret", '{\\"apiKey\\": \\"', lambda m: m.mixed(20), '\\"}'),
    "secret-hex": ("secret", "secret_token: ", lambda m: m.draw(HEX, 40), "\n"),
    "secret-key": ("secret", "SECRET_KEY = '", lambda m: m.draw(WORD + "!#$%&*+-=@^_", 50), "'"),
    "token-uuid": ("secret", "_authToken=", lambda m: "-".join(m.draw(HEX, n) for n in (8, 4, 4, 4, 12)), "\n"),
    "token-hash": ("secret", ":token => '", lambda m: m.draw(WORD, 32), "',"),
    "option": ("secret", "mysqldump --password ", lambda m: m.mixed(12), " app"),
    "option-joined": ("secret", "deploy --token=", lambda m: m.draw(WORD, 40), "\n"),
    "bearer": ("authorization", "Authorization: Bearer ", lambda m: m.draw(WORD, 40), '"'),
    "basic": ("authorization", "Authorization: Basic ", lambda m: base64.b64encode(b"ops:" + m.mixed(12).encode()).decode(), "\n"),
}
#: Kind -> how a text is made that holds no credential, though it looks as if.
LOOK_ALIKES = {
    "commit": lambda m: "fixed in commit %s, see %s" % (m.draw(HEX, 40), m.draw(HEX, 7)),
    "uuid": lambda m: "order %s failed" % "-".join(m.draw(HEX, n) for n in (8, 4, 4, 4, 12)),
    "image": lambda m: "![x](data:image/png;base64,%s)" % m.base64(900),
    "sha256": lambda m: "FROM image@sha256:" + m.draw(HEX, 64),
    "integrity": lambda m: 'integrity="sha512-%s"' % m.base64(64),
    "ids": lambda m: "decided in P117-%s; the key is S3-k7qdm2xw" % "k7qdm2xw",
    "handle": lambda m: "run token: R12-%s" % m.draw(engine.TAG_LETTERS, 8),
    "salt": lambda m: "salt = %s, the other salt is %s" % (m.draw(HEX, 32), m.base64(16)),
    "bcrypt": lambda m: 'Password.create()\n=> "$2b$12$%s", password: $2b$12$%s' % (m.draw(WORD, 53), m.draw(WORD, 53)),
    "url-at": lambda m: "https://medium.com/@someone/post-%s and http://localhost:3000/@fs/x" % m.draw(HEX, 12),
    "url-user": lambda m: "ssh://git@github.com:22/acme/x.git and https://bob@host/x",
    "npm": lambda m: "npm i @types/node@20.1.4 @scope/pkg; https://unpkg.com/@scope/pkg@1.2.3/dist/x.js",
    "mail": lambda m: "mail bob@acme.io: done",
    "angle": lambda m: "password = <your password>, Authorization: Bearer <token>",
    "variable": lambda m: "API_KEY=${API_KEY} TOKEN=$ACME2KEY https://user:${PASS}@host/x",
    "run-of-x": lambda m: 'token: "%s", gh%s' % ("x" * 20, "p_" + "x" * 36),
    "few-letters": lambda m: "AK" + "IA" + "AB" * 8 + " password: " + "a1b2c3" * 3,
    "stars": lambda m: "password=" + "*" * 12,
    "said-so": lambda m: "password: changeme123, api_key: your-api-key-here-123, secret: example-value-1a2b3c",
    "aws-manual": lambda m: "AK" + "IAIOSFODNN7EXAMPLE and aws_secret_access_key = " + "wJalrXUtnFEMI/" + "K7MDENG/bPxRfiCYEXAMPLEKEY",
    "url-manual": lambda m: "postgres://user:password@localhost/db postgres://postgres:postgres@db/x redis://:<password>@h:1",
    "short": lambda m: "sk" + "-ant-api03-... and sk" + "-... and xo" + "xb-your-token-here",
    "code": lambda m: "token = request.headers['X2']; api_key = os.environ['KEY_V2']; password = find4k9x2(user1)",
    "code-names": lambda m: "secret = process.env.SECRET_2, secret: secrets.GITHUB_TOKEN2, password: UserV2Controller",
    "prose": lambda m: "The token is invalid; the password: is required. secret = shared between 2 hosts",
    "names": lambda m: "private key: id_ed25519, token: 15-minute expiry, access key: us-east-1a, secret: sha256-hashed at rest",
    "other-script": lambda m: "token: \u30c8\u30fc\u30af\u30f3\u306f3\u3064a\u9375\u306f2\u3064b\u3067\u30595",
    "other-letters": lambda m: "password: \u0434\u043b\u044f2\u0438\u043c4\u0438\u0433\u043e6",
    "header-only": lambda m: "begins with " + "-" * 5 + "BEGIN RSA PRIVATE KEY" + "-" * 5 + " and ends so",
    "public": lambda m: key_block(m, "", mark="PUBLIC KEY") + key_block(m, "", mark="CERTIFICATE"),
    "ssh-public": lambda m: "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI%s bob@host" % m.draw(WORD, 42),
    "words-in-sk": lambda m: "task-%s disk-%s sk-fading-circle sk-cube-grid" % (m.draw(WORD, 32), m.draw(HEX, 32)),
    "times": lambda m: "token: 2026-11-30T12:00:00.000Z, secret: v1.2.3",
    "paths": lambda m: "key: notes/api2/key3.md and token = /etc/keys/a1b2c3d4e5",
    "publishable": lambda m: "pk_" + "live_" + m.draw(WORD, 24),
    "pages": lambda m: '"nextToken": "%s", next_page_token=%s' % (m.base64(30), m.draw(HEX, 32)),
    "counts": lambda m: "tokens: 8192, max_tokens=4096, token count: 12345678, tokens: 128k/200k/1m",
}
#: What hostile text is made of: the beginnings of each form, over and over.
UNITS = (
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----" + "A" * 23 + " ", "Private-Lines: 1\n", "eyJ", "eyJaaaaaaaaaa.", "token=",
    'token="', "token='a", "token is ", "token=aaaa1111bbbb ", "password=a1b2c3d4", "password: example1a2b3c4d ", "a://a:", "a://a:bcdef",
    "@a://", "bearer a", "--key a", "secret_access_key=", "xoxb-a-", "xoxb-1", "glpat-.a", "1:A", "123456:A", "sk-ant-a-", "sk-proj-",
    "SG.aaaaaaaaaaaaaaaa.", "SG.a", "ya29.", "dapi0", "hooks.slack.com/services/AAAAAAAA/", "discord.com/api/webhooks/1", "AccountKey=",
    "SharedAccessKey=", "-", "a", " ",
)


def read_span(text):
    """Return the name of the first credential in a text and the credential, or None."""
    found = engine.find_secret(text)
    return found and (found[0], text[found[1]:found[2]])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", FORMS)
def test_a_credential_of_each_kind_is_found_where_it_stands(kind, seed):
    """The span is the credential, no more and no less, and the name says what it is, the same for every value."""
    words, before, make, after = FORMS[kind]
    made = make(Maker("%s %d" % (kind, seed)))
    what, first, end = engine.find_secret(before + made + after)
    assert (before + made + after)[first:end] == made
    assert words in what
    assert what == engine.find_secret(before + make(Maker(kind)) + after)[0]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", LOOK_ALIKES)
def test_what_only_looks_like_a_credential_is_none(kind, seed):
    """Hashes, ids, placeholders, names, code and prose are let in."""
    assert read_span(LOOK_ALIKES[kind](Maker("%s %d" % (kind, seed)))) is None


@pytest.mark.parametrize("kind", FORMS)
def test_a_credential_is_found_behind_a_placeholder_of_its_kind(kind):
    """What stands in for a credential hides none that follows it."""
    _words, before, make, after = FORMS[kind]
    made = make(Maker(kind))
    masked = before + "xxxx" + "x" * 40 + after + "\n"
    assert read_span(masked + before + made + after)[1] == made


def test_the_first_of_several_is_named():
    """The credential that begins first is returned, whichever kind is sought first."""
    maker = Maker("several")
    made = {kind: FORMS[kind][1] + FORMS[kind][2](maker) for kind in ("web-token", "github-classic", "password-said", "aws-id")}
    for kind, text in made.items():
        others = "\n".join(other for name, other in made.items() if name != kind)
        what, first, _end = engine.find_secret(text + "\n" + others)
        assert (first, FORMS[kind][0] in what) == (len(FORMS[kind][1]), True)


def test_where_it_stands_counts_characters_of_the_text_itself():
    """A letter that is longer in lower case, and those beyond the first plane, move no span."""
    made = Maker("moved").mixed(16)
    for letter in ("\u0130", "\U0001f511", "\u00df", "\u9375"):
        assert read_span(letter * 9 + " DB_Password=" + made)[1] == made


@pytest.mark.parametrize("size", [1_000, 8_000, 32_768])
def test_hostile_text_comes_to_an_end(size):
    """The beginnings of forms repeated to the size of a detail give an answer, behind any other beginning too."""
    for unit in UNITS:
        for before in ("", "-----BEGIN PRIVATE KEY-----", "token=", "a://b:", "eyJaaaaaaaaaaa.eyJ"):
            text = (before + unit * (size // len(unit) + 1))[:size]
            found = engine.find_secret(text)
            assert found is None or 0 <= found[1] < found[2] <= size


def test_text_of_chance_is_never_an_error():
    """Any text has an answer: the empty one, odd characters, and the marks of every form thrown together."""
    chance = random.Random(5)
    marks = [*UNITS, "\u0130", "\x00", "\ud800", '"', "\\", "\n", "k3Jx92mQz", "@", "--", "==", "PRIVATE KEY"]
    for _ in range(2_000):
        text = "".join(chance.choice(marks) for _ in range(chance.randrange(12)))
        found = engine.find_secret(text)
        assert found is None or text[found[1]:found[2]]


def test_no_pattern_is_compiled_for_a_text_without_a_hint():
    """What most texts cost is the search for literals: the engine, freshly started, compiles nothing for them."""
    text = "The deploy job runs each night; its logs are kept for thirty days (see notes/deploy.md). One writer is enough: 24 / 7."
    code = (
        "import sys, engine\n"
        "made = []\n"
        "compiled = engine.re.compile\n"
        "engine.re.compile = lambda *given: made.append(given) or compiled(*given)\n"
        "assert engine.find_secret(sys.argv[1]) is None\n"
        "plain = len(made)\n"
        "engine.find_secret('password: ' + sys.argv[1])\n"
        "print(plain, len(made))"
    )
    done = subprocess.run([sys.executable, "-c", code, text], cwd=str(Path(ENGINE).parent), capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0", "1"]
