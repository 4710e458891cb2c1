// Sets the formulas of a page with the copy of KaTeX that lies beside it; nothing is fetched from elsewhere.
document.addEventListener("DOMContentLoaded", () =>
  renderMathInElement(document.body, {
    delimiters: [
      { left: "\\[", right: "\\]", display: true },
      { left: "\\(", right: "\\)", display: false },
    ],
  }),
);
