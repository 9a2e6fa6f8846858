// What eslint looks for in the page's JavaScript. No function over 80 lines: a reader sees it whole.
import js from "@eslint/js";

export default [
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2024, sourceType: "module" },
    rules: {
      "eqeqeq": "error",
      "max-lines-per-function": ["error", { max: 80 }],
      "no-shadow": "error",
      "no-undef": "off", // tsc knows the browser's names better
      "no-var": "error",
      "prefer-const": "error",
    },
  },
];
