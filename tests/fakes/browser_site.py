"""A web site for the browser: forms, frames, shadow DOM, dialogs, files, scrolling, a worker."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.http_server import bind, serving

PAGES = {
    "/": """<title>Shop</title><h1>Shop</h1><a href="/form">Order</a> <a href="/frames">Frames</a>
<a href="/download/report.csv" download>Report</a> <a href="/popup" target="_blank">Terms</a>""",
    "/form": """<title>Order</title><form method="post" action="/order">
<label>Name <input name="name"></label>
<label>Size <select name="size"><option>Small<option>Large</select></label>
<label><input type="checkbox" name="gift"> Gift</label>
<label><input type="radio" name="pay" value="card"> Card</label>
<button>Send</button></form>""",
    "/frames": """<title>Frames</title><iframe src="/outer" width="600" height="300"></iframe>""",
    "/outer": """<p>outer</p><iframe src="/inner"></iframe>""",
    "/inner": """<button onclick="this.textContent='pressed in a frame'">Press</button>""",
    "/shadow": """<title>Shadow</title><x-card></x-card><script>
customElements.define('x-card', class extends HTMLElement { connectedCallback() {
  const root = this.attachShadow({mode: 'open'})
  root.innerHTML = '<input aria-label="Code"><button>Apply</button><p></p>'
  root.querySelector('button').onclick = () =>
    root.querySelector('p').textContent = 'code ' + root.querySelector('input').value
}})</script>""",
    "/dialogs": """<title>Dialogs</title><button onclick="alert('careful')">Alert</button>
<button onclick="out.textContent = 'confirmed ' + confirm('sure?')">Confirm</button>
<button onclick="out.textContent = 'named ' + prompt('who?', 'x')">Prompt</button>
<p id="out"></p><script>setTimeout(() => alert('by itself'), 300)</script>""",
    "/endless": """<title>Endless</title><ul id="list"></ul><script>
let count = 0
const more = () => { for (let i = 0; i < 40; i++)
  list.insertAdjacentHTML('beforeend', `<li style="height:40px">item ${++count}</li>`) }
more()
addEventListener('scroll', () => {
  if (innerHeight + scrollY > document.body.scrollHeight - 200) more() })</script>""",
    "/upload": """<title>Upload</title><input type="file" multiple aria-label="Files"
 onchange="Promise.all([...this.files].map(f => f.text())).then(t => out.textContent = t.join())">
<p id="out"></p>""",
    "/slow": "<title>Slow</title><p>slow</p>",
    "/popup": "<title>Terms</title><p>The terms.</p>",
    "/console": """<title>Console</title>
<button onclick="console.warn('odd'); missing()">Go</button>""",
    "/keys": """<title>Keys</title><p id="out">none</p><script>
document.onkeydown = event => out.textContent = 'key ' + event.key</script>""",
    "/worker": """<title>Worker</title><p id="out">waiting</p><script>
navigator.serviceWorker.register('/worker.js')
navigator.serviceWorker.oncontrollerchange = () => fetch('/made').then(a => a.text())
  .then(t => out.textContent = t)</script>""",
    "/many": "<title>Many</title>"
    + "".join(f'<li><a href="#{n}">Link {n}</a><button>B {n}</button></li>' for n in range(667)),
    "/steals": """<title>Steals</title><p id="out">waiting</p><script>
Promise.allSettled(['http://169.254.169.254/latest', 'http://10.0.0.1/', 'http://localhost:1/',
  'file:///etc/passwd'].map(url => fetch(url, {mode: 'no-cors'})))
  .then(all => out.textContent = all.map(one => one.status).join())</script>""",
    "/embeds": """<title>Embeds</title><iframe id="in"></iframe><script>
document.getElementById('in').src = '/away' + location.search</script>""",
    "/talks": """<title>Talks</title><p id="out"></p><script>
const socket = new WebSocket(new URLSearchParams(location.search).get('to'))
socket.onclose = () => out.textContent = 'closed'</script>""",
    "/cookie": """<title>Cookie</title><p id="out"></p><script>
out.textContent = 'had ' + document.cookie; document.cookie = 'id=secret'</script>""",
}
WORKER = """self.oninstall = () => skipWaiting()
self.onactivate = event => event.waitUntil(clients.claim())
self.onfetch = event => { if (new URL(event.request.url).pathname == '/made')
  event.respondWith(new Response('made by the worker')) }"""


@dataclass
class BrowserSite:
    """The site, and what was sent to it."""

    url: str
    orders: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    hold: asyncio.Event | None = None
    """What the answers to orders wait for."""
    paths: list[str] = field(default_factory=list[str])

    async def serve(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.paths.append(path)
        if path == "/order":
            form = await request.post()
            self.orders.append({name: str(value) for name, value in form.items()})
            if self.hold is not None:
                await self.hold.wait()
            return _page("<title>Thanks</title><h1>Thanks</h1>")
        if path == "/download/report.csv":
            headers = {"Content-Disposition": "attachment; filename=report.csv"}
            return web.Response(body=b"a,b\n1,2\n", headers=headers)
        if path == "/worker.js":
            return web.Response(text=WORKER, content_type="text/javascript")
        if path == "/slow" and self.paths.count(path) == 1:
            await asyncio.sleep(5)
        if path == "/away":
            raise web.HTTPFound(request.query["to"])
        return _page(PAGES[path]) if path in PAGES else web.Response(status=404)


def _page(html: str) -> web.Response:
    return web.Response(text=f"<!doctype html>{html}", content_type="text/html")


@asynccontextmanager
async def browser_site(host: str = "127.0.0.1") -> AsyncGenerator[BrowserSite]:
    """Serve the site on an address of the loopback."""
    listener, url = bind(host)
    site = BrowserSite(url)
    async with serving(listener, site.serve):
        yield site
