"""The style of the report page: light and dark, on screen and on paper.

The colours are those of Okabe and Ito, which people with any kind of colour vision can tell apart; nothing is told by
colour alone.
"""

STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --faint: #59626d; --paper: #ffffff; --box: #f5f7f9; --line: #c9d0d8;
  --good: #007a59; --bad: #b84700; --ask: #9a4a86; --busy: #0068a8; --dim: #68717c; --up: #b35900; --down: #0068a8;
  --on: #ffffff; }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ed; --faint: #a3adb8; --paper: #14181d; --box: #1d232a; --line: #3b4550; --good: #2fbf93;
    --bad: #ff8a4c; --ask: #dd8fc9; --busy: #5bb4ec; --dim: #9aa4af; --up: #e69f00; --down: #56b4e9; --on: #14181d; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", "Liberation Sans", Arial, sans-serif; }
main { max-width: 1060px; margin: 0 auto; padding: 24px 20px 60px; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.3; margin: .3em 0; }
h2 { font-size: 1.1rem; margin: 2.2em 0 .6em; padding-bottom: .25em; border-bottom: 1px solid var(--line); }
h3 { font-size: .95rem; margin: 1.2em 0 .3em; color: var(--faint); }
ul { margin: .2em 0; padding-left: 1.2em; }
li { margin: .25em 0; }
code, pre, .mono { font-family: ui-monospace, "DejaVu Sans Mono", "Liberation Mono", monospace; font-size: .85em; }
pre { background: var(--box); border: 1px solid var(--line); border-radius: 4px; padding: .7em .9em; margin: .5em 0;
  white-space: pre-wrap; }
table { border-collapse: collapse; width: 100%; font-size: .92em; }
th, td { text-align: left; vertical-align: top; padding: .3em .7em .3em 0; border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; white-space: nowrap; overflow-wrap: normal; }
td code { overflow-wrap: normal; }
td.number { width: 1%; text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15em 1.2em; margin: .8em 0; }
dt { color: var(--faint); }
dd { margin: 0; }
p.note { color: var(--faint); font-size: .88em; margin: .3em 0; }
.badge { display: inline-flex; align-items: center; gap: .5em; border: 1.5px solid currentColor; border-radius: 4px;
  padding: .1em .6em; font-weight: 600; }
.badge svg { width: 1em; height: 1em; overflow: visible; }
.level { color: var(--faint); border: 1px solid var(--line); border-radius: 3px; padding: 0 .4em; font-size: .78em;
  white-space: nowrap; }
.good { color: var(--good); } .bad { color: var(--bad); } .ask { color: var(--ask); } .busy { color: var(--busy); }
.dim, .wait { color: var(--dim); }
.wide { overflow-x: auto; }
.wide > svg { display: block; max-width: 100%; height: auto; }
figure .wide > svg { width: 100%; }
.meter { margin-top: .45em; height: 8px; min-width: 120px; background: var(--box); border: 1px solid var(--line); }
.meter div { height: 100%; background: var(--busy); }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(420px, 1fr)); gap: 12px 28px; }
figure { margin: 0; }
svg text { fill: var(--ink); font-size: 12.5px; }
svg .small, svg .faint { fill: var(--faint); font-size: 11.5px; }
svg .tiny { fill: var(--faint); font-size: 10.5px; }
svg .strong { font-weight: 600; }
svg .box { fill: var(--box); stroke: currentColor; stroke-width: 1.3; }
svg .acts { fill: var(--up); }
svg .edges path { fill: none; stroke: var(--faint); stroke-opacity: .55; stroke-width: 1.2; }
svg .sign .fill { fill: currentColor; }
svg .sign .line { stroke: currentColor; }
svg .sign .on { stroke: var(--on); }
svg .sign .on-text { fill: var(--on); font-size: 11px; font-weight: 700; }
svg .row .small { paint-order: stroke; stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
svg .row .bar { fill: currentColor; fill-opacity: .8; }
svg .row.check .bar { fill: var(--faint); fill-opacity: .45; }
svg .tick path { stroke: var(--line); stroke-width: 1; }
svg .tick text { fill: var(--faint); font-size: 11px; }
svg .tick.zero path { stroke: var(--ink); }
svg .cut path { stroke: var(--faint); stroke-width: 1.2; }
svg .part .bar { fill-opacity: .75; }
svg .part.down .bar { fill: var(--down); } svg .part.up .bar { fill: var(--up); }
svg .interval { stroke: var(--ink); stroke-width: 1.4; fill: none; }
@media print {
  @page { margin: 14mm; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  .wide { overflow: visible; }
  .wide > svg { min-width: 0 !important; }
  tr, li, figure, .keep { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .figures { grid-template-columns: 1fr 1fr; }
  .meter div, svg .bar, svg .acts, .sign { print-color-adjust: exact; }
}
"""
