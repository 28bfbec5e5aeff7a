"""From text to syntax trees and statements."""
