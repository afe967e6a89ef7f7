// A VNC viewer (RFB 3.8, RFC 6143) with the encodings that every server has: raw pixels and copies of what is there.

const status = document.getElementById("status");
const canvas = document.getElementById("screen");
const context = canvas.getContext("2d");
// Of the page: connecting, connected, away (it comes back by itself) or ended.
const show = (state, text) => {
  document.documentElement.dataset.state = state;
  status.textContent = text;
};

const address = new URL("../vnc", location.href);
address.protocol = address.protocol === "https:" ? "wss:" : "ws:";

// How long a lost screen is asked for again: a reset takes seconds, on a busy machine a minute.
const GIVE_UP_MS = 10 * 60_000;
// Between two tries, doubled each time. The gateway lets the first one wait until a reset is over.
const FIRST_PAUSE_MS = 250, LONGEST_PAUSE_MS = 5_000;
// RFC 6455: the deploy is closing, and nothing comes back.
const GOING_AWAY = 1001;

let socket = null, pause = FIRST_PAUSE_MS, lostAt = null, why = "";
// Bytes that have come and were not read yet.
let chunks = [], available = 0, wanted = null;
let buttons = 0;

function connect() {
  [chunks, available, wanted, buttons] = [[], 0, null, 0];
  socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  socket.onmessage = ({ data }) => {
    chunks.push(new Uint8Array(data));
    available += data.byteLength;
    if (wanted && available >= wanted.length) {
      const { length, done } = wanted;
      wanted = null;
      done(take(length));
    }
  };
  socket.onclose = lost;
  // What is no VNC now will be none later.
  run().catch((error) => { socket.onclose = null; socket.close(); show("ended", error.message); });
}

function lost({ code, reason }) {
  // A try that failed has no reason of its own.
  why = reason || why || "the connection was lost";
  lostAt ??= performance.now();
  if (code === GOING_AWAY || performance.now() - lostAt > GIVE_UP_MS) {
    show("ended", `${why}; reload the page to try again`);
    return;
  }
  show("away", `${why}; the screen comes back by itself`);
  setTimeout(connect, pause);
  pause = Math.min(2 * pause, LONGEST_PAUSE_MS);
}

function take(length) {
  const bytes = new Uint8Array(length);
  for (let filled = 0; filled < length;) {
    const part = chunks[0].subarray(0, length - filled);
    bytes.set(part, filled);
    filled += part.length;
    if (part.length === chunks[0].length) chunks.shift();
    else chunks[0] = chunks[0].subarray(part.length);
  }
  available -= length;
  return new DataView(bytes.buffer);
}

const read = (length) => available >= length
  ? Promise.resolve(take(length))
  : new Promise((done) => { wanted = { length, done }; });
const text = (view) => new TextDecoder().decode(view.buffer);
const send = (...bytes) => { if (socket.readyState === WebSocket.OPEN) socket.send(new Uint8Array(bytes.flat())); };
const u16 = (value) => [value >> 8 & 255, value & 255];
const u32 = (value) => [value >>> 24, value >> 16 & 255, value >> 8 & 255, value & 255];

function askForUpdate(incremental) {
  send(3, incremental ? 1 : 0, u16(0), u16(0), u16(canvas.width), u16(canvas.height));
}

async function rectangle() {
  const head = await read(12);
  const [x, y, width, height, encoding] =
    [head.getUint16(0), head.getUint16(2), head.getUint16(4), head.getUint16(6), head.getInt32(8)];
  if (encoding === 1) {
    const from = await read(4);
    context.drawImage(canvas, from.getUint16(0), from.getUint16(2), width, height, x, y, width, height);
  } else if (encoding === 0 && width && height) {
    const pixels = new Uint8ClampedArray((await read(width * height * 4)).buffer);
    for (let at = 3; at < pixels.length; at += 4) pixels[at] = 255;
    context.putImageData(new ImageData(pixels, width, height), x, y);
  }
}

async function run() {
  await read(12);
  send([...new TextEncoder().encode("RFB 003.008\n")]);
  const kinds = await read((await read(1)).getUint8(0));
  if (![...new Uint8Array(kinds.buffer)].includes(1)) throw new Error("the server asks for a password");
  send(1);
  if ((await read(4)).getUint32(0)) throw new Error(text(await read((await read(4)).getUint32(0))));
  send(1);
  const init = await read(24);
  canvas.width = init.getUint16(0);
  canvas.height = init.getUint16(2);
  const name = text(await read(init.getUint32(20)));
  // 32 bits a pixel, true colour, red first: as a canvas has them. Then copies and raw pixels.
  send(0, 0, 0, 0, 32, 24, 0, 1, u16(255), u16(255), u16(255), 0, 8, 16, 0, 0, 0);
  send(2, 0, u16(2), u32(1), u32(0));
  show("connected", name || "connected");
  [pause, lostAt, why] = [FIRST_PAUSE_MS, null, ""];
  askForUpdate(false);
  for (;;) {
    const kind = (await read(1)).getUint8(0);
    if (kind === 0) {
      const count = (await read(3)).getUint16(1);
      for (let at = 0; at < count; at += 1) await rectangle();
      askForUpdate(true);
    } else if (kind === 1) {
      const head = await read(5);
      await read(head.getUint16(3) * 6);
    } else if (kind === 3) {
      const head = await read(7);
      await read(head.getUint32(3));
    } else if (kind !== 2) {
      throw new Error(`the server said ${kind}`);
    }
  }
}

function pointer(event) {
  const frame = canvas.getBoundingClientRect();
  const place = (at, start, length, size) => Math.max(0, Math.min(size - 1, Math.floor((at - start) * size / length)));
  const x = place(event.clientX, frame.left, frame.width, canvas.width);
  const y = place(event.clientY, frame.top, frame.height, canvas.height);
  send(5, buttons, u16(x), u16(y));
  event.preventDefault();
}
const bit = (button) => 1 << button;
canvas.addEventListener("pointermove", pointer);
canvas.addEventListener("pointerdown", (event) => { buttons |= bit(event.button); canvas.focus(); canvas.setPointerCapture(event.pointerId); pointer(event); });
canvas.addEventListener("pointerup", (event) => { buttons &= ~bit(event.button); pointer(event); });
canvas.addEventListener("contextmenu", (event) => event.preventDefault());
canvas.addEventListener("wheel", (event) => {
  const wheel = event.deltaY ? (event.deltaY < 0 ? 8 : 16) : (event.deltaX < 0 ? 32 : 64);
  buttons |= wheel; pointer(event);
  buttons &= ~wheel; pointer(event);
}, { passive: false });

// Keys that are no characters, as X11 numbers them.
const KEYS = {
  Backspace: 0xff08, Tab: 0xff09, Enter: 0xff0d, Escape: 0xff1b, Insert: 0xff63, Delete: 0xffff, Home: 0xff50, End: 0xff57,
  PageUp: 0xff55, PageDown: 0xff56, ArrowLeft: 0xff51, ArrowUp: 0xff52, ArrowRight: 0xff53, ArrowDown: 0xff54, Shift: 0xffe1,
  Control: 0xffe3, Alt: 0xffe9, AltGraph: 0xfe03, Meta: 0xffeb, CapsLock: 0xffe5,
};
for (let at = 1; at <= 12; at += 1) KEYS[`F${at}`] = 0xffbd + at;
function key(event) {
  const point = event.key.codePointAt(0);
  const isCharacter = [...event.key].length === 1;
  const symbol = isCharacter ? (point < 0x100 ? point : 0x1000000 + point) : KEYS[event.key];
  if (symbol) send(4, event.type === "keydown" ? 1 : 0, 0, 0, u32(symbol));
  event.preventDefault();
}
canvas.addEventListener("keydown", key);
canvas.addEventListener("keyup", key);

connect();
