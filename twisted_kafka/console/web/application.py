"""Takes the console's requests: finds their users and pages, and checks forms. Only bytes pass on the main reactor."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from twisted.logger import Logger

from twisted_kafka.console.cluster.other_brokers import PATIENCE_S
from twisted_kafka.console.cluster.problems import CommandError, NotNowError, TryAgainError
from twisted_kafka.console.cluster.session import Session
from twisted_kafka.console.web import rendering
from twisted_kafka.console.web.call import BadFormError, Call, Document, Handler, NotFoundError, Outcome, Page, Redirect, Viewer
from twisted_kafka.console.web.context import ConsoleContext
from twisted_kafka.console.web.events import Hub, Rendered
from twisted_kafka.console.web.guard import MOST_URI_BYTES
from twisted_kafka.console.web.listener import PAGE_TYPE, ConsoleRequest
from twisted_kafka.console.web.rendering import query_url, static_file
from twisted_kafka.console.web.routes import GETS, HARMLESS, LIVE, OPEN, POSTS, SECTIONS, TAILS, section_of
from twisted_kafka.console.web.users.sessions import new_token
from twisted_kafka.network.requests.kafka_principal import ANONYMOUS, KafkaPrincipal
from twisted_kafka.protocol.errors import ErrorCode
from twisted_kafka.system.client_text import bounded_text
from twisted_kafka.system.threads import thread_cpu_ns

THREADS: Final = 8
MOST_UNDER_WAY: Final = 64
"""Most requests that wait for a thread or have one; further ones get 503."""
MOST_OF_USER: Final = 6
"""Most of them of one user, so that slow searches of one leave threads to others."""
MOST_FIELDS: Final = 200

_STATIC: Final = "/static/"
_FOREVER: Final = "public, max-age=31536000, immutable"
_DENIED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND})

T = TypeVar("T")
OpenSession = Callable[[KafkaPrincipal, str], Session]
Submit = Callable[[Callable[[], Any]], "Future[Any]"]

_log = Logger()


class Application:
    """Answers the requests of a console. ``render`` is called on the reactor's thread."""

    def __init__(self, context: ConsoleContext, open_session: OpenSession, reactor: Any, submit: Submit) -> None:
        """``open_session`` returns a session that asks in a principal's name; ``submit`` runs a call on a pool's thread."""
        self._context = context
        self._open_session = open_session
        self._reactor = reactor
        self._submit = submit
        self._under_way = 0
        self._of_user: dict[str, int] = {}
        self.hub = Hub(reactor, submit)

    def render(self, request: ConsoleRequest) -> None:
        """Answer a complete request, now or later."""
        if request.refusal is not None:
            status, why = request.refusal
            headers = {"allow": "GET, HEAD, POST"} if status == 405 else {}
            request.answer(status, f"{why}\n".encode(), "text/plain; charset=utf-8", headers)
            return
        path = request.path.decode("latin-1")
        if path.startswith(_STATIC):
            self._send_file(request, path.removeprefix(_STATIC))
            return
        viewer, is_new = self._viewer(request)
        if self._needs_login(viewer, path):
            self._send_to_login(request, path)
        elif path == LIVE:
            self._follow(request, viewer)
        else:
            self._run(request, viewer, path, is_new=is_new)

    # Users

    def _viewer(self, request: ConsoleRequest) -> tuple[Viewer, bool]:
        """Return who asks, and whether the browser needs a cookie for its forms."""
        context, address = self._context, request.address
        token = request.cookie(context.cookie_name("session"))
        if token and (session := context.sessions.find(token, is_use=not request.path.startswith(LIVE.encode()))) is not None:
            if context.passwords.is_current(session.user, session.mechanism, session.credential):
                return Viewer(session.principal, address, session.user, token), False
            context.sessions.end(token)
        cookie = request.cookie(context.cookie_name("browser"))
        return Viewer(ANONYMOUS, address, "", cookie or new_token()), not cookie

    def _needs_login(self, viewer: Viewer, path: str) -> bool:
        return self._context.settings.needs_login and not viewer.user and path not in OPEN

    def _send_to_login(self, request: ConsoleRequest, path: str) -> None:
        if path == LIVE:
            request.answer(401, b"Log in again\n", "text/plain; charset=utf-8", {})
            return
        from urllib.parse import urlencode

        wanted = request.uri.decode("latin-1") if request.method == b"GET" and path in GETS else "/"
        to = "/login" if wanted == "/" else f"/login?{urlencode({'to': wanted})}"
        if len(to) > MOST_URI_BYTES:  # encoded again, it may be three times as long
            to = f"/login?{urlencode({'to': path})}"
        request.answer(303, b"", PAGE_TYPE, {"location": to})

    # Pages

    def _run(self, request: ConsoleRequest, viewer: Viewer, path: str, *, is_new: bool) -> None:
        user = viewer.user
        if self._under_way >= MOST_UNDER_WAY or (user and self._of_user.get(user, 0) >= MOST_OF_USER):
            request.answer(503, b"Too many requests are under way. Try again.\n", "text/plain; charset=utf-8", {"retry-after": "2"})
            return
        self._under_way += 1
        self._of_user[user] = self._of_user.get(user, 0) + 1
        cookies = (self._context.cookie("browser", viewer.cookie),) if is_new else ()
        uri, body = request.uri.decode("latin-1"), request.content.getvalue() if request.method == b"POST" else None
        future = self._submit(lambda: self._answer(viewer, path, uri, body))
        future.add_done_callback(lambda done: self._reactor.callFromThread(self._send, request, user, cookies, done))

    def _send(self, request: ConsoleRequest, user: str, cookies: tuple[str, ...], future: "Future[Any]") -> None:
        self._under_way -= 1
        self._of_user[user] -= 1
        if not self._of_user[user]:
            del self._of_user[user]
        try:
            status, body, headers, more = future.result()
        except Exception:  # noqa: BLE001 the browser gets an answer
            _log.failure("A page of the console failed: {path}", path=bounded_text(request.path.decode("latin-1")))
            status, body, headers, more = 500, b"The console failed. The broker's log has the reason.\n", {}, ()
            request.answer(status, body, "text/plain; charset=utf-8", headers)
            return
        request.answer(status, body, PAGE_TYPE, headers, (*cookies, *more))

    def _answer(
        self, viewer: Viewer, path: str, uri: str, body: bytes | None
    ) -> tuple[int, bytes, dict[str, str], tuple[str, ...]]:
        """Return status, body, headers and cookies. Called on the pool."""
        session = self._open_session(viewer.principal, viewer.address)
        if body is None:  # a page shows what there is; a change waits until it can be made
            session.patience_s = PATIENCE_S
        try:
            call = Call(
                viewer, session, path, _fields(uri.partition("?")[2]), _fields((body or b"").decode("latin-1")), self._context
            )
            answer = self._page(call, is_change=body is not None)
        finally:
            session.close()
        if isinstance(answer, Redirect):
            if answer.notice:
                self._context.notices.put(viewer.cookie, answer.notice)
            return 303, b"", {"location": answer.to, **answer.headers}, answer.cookies
        if isinstance(answer, Document):
            return 200, answer.body, dict(answer.headers), ()
        # A live part leaves the notice to the next page.
        values = {"notice": self._context.notices.take(viewer.cookie), **self._values(call, answer)}
        return answer.status, rendering.page(answer.template, values), {}, ()

    def _page(self, call: Call, *, is_change: bool) -> Outcome:
        """Call the page's handler; an error becomes a page."""
        try:
            if is_change:
                return self._change(call)
            return _handler(GETS, call.path)(call)
        except NotFoundError as error:
            return _problem(404, str(error) or "There is no such page.")
        except BadFormError as error:
            return _problem(400, str(error))
        except (TryAgainError, NotNowError) as error:
            return _problem(503, str(error))
        except ValueError as error:
            return _problem(400, str(error))
        except CommandError as error:
            code = getattr(error, "code", None)
            is_unknown = code in _UNKNOWN or str(error).startswith("there is no ")
            return _problem(403 if code in _DENIED else 404 if is_unknown else 409, str(error))

    def _change(self, call: Call) -> Outcome:
        """Check a form's token and, unless it only logs in or out, that changes are allowed."""
        handler = _handler(POSTS, call.path)
        if not self._context.tokens.is_token(call.viewer.cookie, call.form.get("token", "")):
            return _problem(403, "This form is too old, or it comes from elsewhere. Go back, reload the page and try again.")
        if call.path not in HARMLESS and not self._context.settings.may_write:
            return _problem(403, "The console is read-only. The setting console.write.enable=true allows changes.")
        return handler(call)

    def _values(self, call: Call, page: Page) -> dict[str, Any]:
        """Return the values of a page with those of the frame around all pages."""
        context, settings = self._context, self._context.settings
        return {
            "broker_id": settings.broker_id,
            "call": call,
            "current": section_of(
                str(page.values.get("back", call.path)).partition("?")[0]
            ),  # a change belongs to its outcome's page
            "has_login": settings.needs_login,
            "live_at": query_url(call.path, call.query) if page.is_live else "",
            "may_write": settings.may_write,
            "sections": SECTIONS,
            "now_ms": context.clock.wall_ms(),
            "token": context.tokens.token_of(call.viewer.cookie),
            "user": call.viewer.user,
            **page.values,
        }

    # Live parts

    def _follow(self, request: ConsoleRequest, viewer: Viewer) -> None:
        """Open a stream of a page's live part, or of a tail."""
        at = _fields(request.uri.decode("latin-1").partition("?")[2]).get("at", "")
        path, _, query = at.partition("?")
        if path in TAILS:
            after = _fields(request.uri.decode("latin-1").partition("?")[2]).get("after", "")
            tail = TAILS[path](_fields(query), self._context, after)
            follow = self._still_allowed(viewer, tail.render, lambda: tail.cursor)
            is_open = self.hub.add(object(), request, viewer.user, follow, is_following=True)
        elif path in GETS:
            # Sessions share nothing, even those of one user: the end of one must neither end nor spare the other's streams.
            key = (viewer.principal, viewer.address, viewer.cookie if viewer.user else "", at)
            follow = self._still_allowed(viewer, lambda session: self._live_part(session, viewer, path, query))
            is_open = self.hub.add(key, request, viewer.user, follow)
        else:
            request.answer(404, b"There is no such page\n", "text/plain; charset=utf-8", {})
            return
        if not is_open:
            request.answer(503, b"Too many pages are open\n", "text/plain; charset=utf-8", {"retry-after": "30"})

    def _still_allowed(
        self, viewer: Viewer, render: Callable[[Session], str | None], cursor: Callable[[], str] = str
    ) -> Callable[[], Rendered]:
        """Return a rendering that measures itself and the handlers' part, and that ends when the viewer's session does."""
        context = self._context

        def measured() -> Rendered:
            began_ns = thread_cpu_ns()
            if viewer.user:
                known = context.sessions.find(viewer.cookie, is_use=False)
                if known is None or not context.passwords.is_current(known.user, known.mechanism, known.credential):
                    return Rendered(None, 0, is_end=True)
            data, is_end = None, False
            session = self._open_session(viewer.principal, viewer.address)
            session.patience_s = PATIENCE_S
            try:
                data = render(session)
            except (TryAgainError, NotNowError):
                pass  # the next rendering has it
            except (NotFoundError, BadFormError, ValueError, CommandError):
                is_end = True  # gone, or not for this viewer any more: the reloaded page has the reason
            finally:
                session.close()
            cost_ns = thread_cpu_ns() - began_ns + session.handled_ns
            return Rendered(data, cost_ns, is_end=is_end, cursor=cursor())

        return measured

    def _live_part(self, session: Session, viewer: Viewer, path: str, query: str) -> str:
        call = Call(viewer, session, path, _fields(query), {}, self._context)
        answer = _handler(GETS, path)(call)
        if not isinstance(answer, Page) or not answer.is_live:
            raise NotFoundError  # a search of the access log, say, is asked for once
        return rendering.live_part(answer.template, self._values(call, answer))

    def _send_file(self, request: ConsoleRequest, name: str) -> None:
        found = static_file(name)
        if found is None:
            request.answer(404, b"There is no such file\n", "text/plain; charset=utf-8", {})
        else:
            request.answer(200, found[0], found[1], {"cache-control": _FOREVER})


def _handler(handlers: dict[str, Handler], path: str) -> Handler:
    handler = handlers.get(path)
    if handler is None:
        raise NotFoundError
    return handler


def _problem(status: int, line: str) -> Page:
    return Page("problem.html", {"title": "Not possible", "line": line, "status": status}, status)


def _fields(text: str) -> dict[str, str]:
    """Return the fields of a query or form; of several with one name the last. Those of a malformed one are left out."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="replace"))
    except ValueError:
        return {}
