import js from "@eslint/js";
import globals from "globals";

export default [
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2023, sourceType: "module", globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: "error",
      "no-shadow": "error",
      "no-var": "error",
      "object-shorthand": "error",
      "prefer-const": "error",
      // Token text is data, never markup.
      "no-restricted-properties": ["error", ...["innerHTML", "outerHTML", "insertAdjacentHTML"].map((property) => ({ property }))],
      "no-restricted-syntax": ["error", { selector: "MemberExpression[property.name=/^(inner|outer)HTML$/]", message: "Token text is data: textContent only." }],
      "max-lines": ["error", { max: 310 }],
    },
  },
];
