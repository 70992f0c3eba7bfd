// Shows bytes on @xterm/headless: a line of JSON in ({columns, lines, data}), a line of JSON out (what stands there).
// With `piece` set it only takes the bytes in pieces of that size and says how many CPU seconds that cost.
const { Terminal } = require("@xterm/headless");

const OPTIONS = { allowProposedApi: true, logLevel: "off" };
const FLAGS = [
  "isBold", "isDim", "isItalic", "isUnderline", "isInverse", "isInvisible", "isStrikethrough", "isOverline",
];
const colour = (rgb, palette, value) => (rgb ? 0x1000000 | value : palette ? value : -1);

function look(cell) {
  return [
    colour(cell.isFgRGB(), cell.isFgPalette(), cell.getFgColor()),
    colour(cell.isBgRGB(), cell.isBgPalette(), cell.getBgColor()),
    FLAGS.filter((flag) => cell[flag]()).map((flag) => FLAGS.indexOf(flag)),
  ];
}

function shown(terminal, replies) {
  const buffer = terminal.buffer.active;
  const line = (y) => buffer.getLine(y);
  const screen = Array.from({ length: terminal.rows }, (_, y) => line(buffer.baseY + y));
  return {
    rows: screen.map((row) => row.translateToString(true).trimEnd()),
    looks: screen.map((row) => Array.from({ length: terminal.cols }, (_, x) => look(row.getCell(x)))),
    back: Array.from({ length: buffer.baseY }, (_, y) => line(y).translateToString(true).trimEnd()),
    cursor: [buffer.cursorY, buffer.cursorX],
    replies,
  };
}

function play(job) {
  const terminal = new Terminal({ cols: job.columns, rows: job.lines, scrollback: job.scrollback, ...OPTIONS });
  const data = Buffer.from(job.data, "base64");
  const replies = [];
  terminal.onData((reply) => replies.push(reply));
  const before = process.cpuUsage();
  return new Promise((done) => {
    process.once("uncaughtException", (error) => done({ error: String(error) }));
    const piece = job.piece || data.length || 1;
    for (let start = 0; start < data.length; start += piece) terminal.write(data.subarray(start, start + piece));
    terminal.write("", () => {
      const cost = process.cpuUsage(before);
      done(job.piece ? { seconds: (cost.user + cost.system) / 1e6 } : shown(terminal, replies));
      terminal.dispose();
      process.removeAllListeners("uncaughtException");
    });
  });
}

let last = Promise.resolve();
process.stdout.write(JSON.stringify({ version: require("@xterm/headless/package.json").version }) + "\n");
require("readline").createInterface({ input: process.stdin }).on("line", (text) => {
  last = last.then(() => play(JSON.parse(text))).then((answer) => process.stdout.write(JSON.stringify(answer) + "\n"));
});
