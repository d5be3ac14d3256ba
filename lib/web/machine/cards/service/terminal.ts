/**
 * A terminal on the page. xterm.js enters here.
 *
 * The policy of the page lets in no style but its own files, and xterm.js makes elements and attributes of style. The
 * same rules go into style sheets of the document and into the styles of the elements, which scripts may change. Its
 * option for another document does not reach all places that make elements.
 */

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import "@xterm/xterm/css/xterm.css";
import type { TerminalSize } from "./shell_session.ts";

const SCROLLBACK_LINES = 5000;
const THEME = {
  background: "#0b0f12",
  foreground: "#dfe6ec",
  cursor: "#6bb3e0",
  selectionBackground: "#2f5570",
};

export interface PageTerminal {
  readonly size: TerminalSize;
  /** Resolves when it has been drawn. */
  write(text: string): Promise<void>;
  focus(): void;
  close(): void;
}

export interface TerminalEvents {
  typed(text: string): void;
  resized(size: TerminalSize): void;
}

export function createTerminal(place: HTMLElement, label: string, events: TerminalEvents): PageTerminal {
  const terminal = new Terminal({
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
    fontSize: 12,
    scrollback: SCROLLBACK_LINES,
    screenReaderMode: true,
    theme: THEME,
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  takeStyleAttributes();
  const sheets = withSheets(() => terminal.open(place));
  terminal.textarea?.setAttribute("aria-label", label);
  leaveByEscape(terminal);
  fit.fit();

  terminal.onData((text) => events.typed(text));
  terminal.onResize(({ cols, rows }) => events.resized({ cols, rows }));
  const observer = new ResizeObserver(() => fit.fit());
  observer.observe(place);
  return {
    get size() {
      return { cols: terminal.cols, rows: terminal.rows };
    },
    write: (text) => new Promise((resolve) => terminal.write(text, resolve)),
    focus: () => terminal.focus(),
    close() {
      observer.disconnect();
      terminal.dispose();
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => !sheets.has(sheet));
    },
  };
}

/** The Tab key belongs to the shell, but after Escape it leaves the terminal: nobody is caught in it. */
function leaveByEscape(terminal: Terminal): void {
  let leaves = false;
  terminal.attachCustomKeyEventHandler((event) => {
    if (event.type !== "keydown") return true;
    if (event.key === "Tab" && leaves) return false;
    if (event.key !== "Shift") leaves = event.key === "Escape";
    return true;
  });
}

/** Does the work while each new element of style is a sheet of the document; returns these sheets. */
function withSheets(work: () => void): ReadonlySet<CSSStyleSheet> {
  const sheets = new Set<CSSStyleSheet>();
  const create = document.createElement.bind(document);
  const own = { value: (name: string) => name === "style" ? sheetElement(create, sheets) : create(name) };
  Object.defineProperty(document, "createElement", { ...own, configurable: true });
  try {
    work();
  } finally {
    Reflect.deleteProperty(document, "createElement");
  }
  return sheets;
}

/** An element whose text is a sheet of the document. */
function sheetElement(create: (name: string) => HTMLElement, sheets: Set<CSSStyleSheet>): HTMLElement {
  const sheet = new CSSStyleSheet();
  sheets.add(sheet);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  const element = create("span");
  element.hidden = true;
  const replace = (text: string) => sheet.replaceSync(text);
  Object.defineProperty(element, "textContent", { get: () => "", set: replace });
  return element;
}

/** An attribute of style of a span changes the span's style: the same, as scripts may do it. */
function takeStyleAttributes(): void {
  const { setAttribute } = Element.prototype;
  HTMLSpanElement.prototype.setAttribute = function (name: string, value: string): void {
    if (name === "style") this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };
}
