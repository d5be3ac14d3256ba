/**
 * A terminal on the page. xterm.js enters here.
 *
 * The policy of the page lets in no style but its own files, and xterm.js writes elements and attributes of style. So it
 * gets a document whose elements put the same rules into the style sheets of the page and the styles of elements, which
 * scripts may change.
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
  const sheets = new Set<CSSStyleSheet>();
  const terminal = new Terminal({
    documentOverride: styledDocument(sheets),
    fontFamily: getComputedStyle(document.documentElement).getPropertyValue("--mono"),
    fontSize: 12,
    scrollback: SCROLLBACK_LINES,
    screenReaderMode: true,
    theme: THEME,
  });
  const fit = new FitAddon();
  terminal.loadAddon(fit);
  terminal.open(place);
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

/** The document, but for elements of style and attributes of style. */
function styledDocument(sheets: Set<CSSStyleSheet>): Document {
  return new Proxy(document, {
    get(target, key) {
      if (key === "createElement") {
        return (name: string) => name === "style" ? styleElement(sheets) : withStyleAttribute(target, name);
      }
      const value = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** An element whose text is a sheet of the document. */
function styleElement(sheets: Set<CSSStyleSheet>): HTMLElement {
  const sheet = new CSSStyleSheet();
  sheets.add(sheet);
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  const element = document.createElement("span");
  element.hidden = true;
  Object.defineProperty(element, "textContent", {
    get: () => "",
    set: (text: string) => sheet.replaceSync(text),
  });
  return element;
}

function withStyleAttribute(target: Document, name: string): HTMLElement {
  const element = target.createElement(name);
  const set = element.setAttribute.bind(element);
  element.setAttribute = (key, value) => {
    if (key === "style") element.style.cssText = value;
    else set(key, value);
  };
  return element;
}
